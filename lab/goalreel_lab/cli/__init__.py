"""The commands that the laboratory adds to goalreel's, one module each."""
