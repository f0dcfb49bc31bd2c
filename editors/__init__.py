"""editors."""

import logging

# diffusers warns at import of classes that the pinned torchao has moved; only torchao's own files hold them.
logging.getLogger("diffusers.quantizers.torchao.torchao_quantizer").setLevel(logging.ERROR)
