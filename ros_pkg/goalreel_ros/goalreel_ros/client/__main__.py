"""`python -m goalreel_ros.client`."""

from goalreel_ros.client.terminal import main

main()
