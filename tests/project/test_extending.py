"""The tutorials of docs/extending.md, as they stand there: in an empty folder, with the package as
it is installed."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHAPTERS = re.split(r"^## ", (ROOT / "docs/extending.md").read_text(), flags=re.MULTILINE)
#: What each tutorial prints or writes.
SHOWN = {
    "A pattern": {"output": ["s2", "squeeze"], "maps.html": ["s2"]},
    "A fusion": {
        "output": ["softmax"],
        "report.html": ["Softmax: share of a branch", '"gate": "softmax: share'],
    },
    "A paper": {
        "output": ["local", "strided", "Strided attention", "every 3rd", "\n30\n", "translated to"]
    },
}

#: After the last one: under Hydra; on another machine, without configurations; as an ensemble.
AFTERWARDS = """
cat > hydra.yaml <<END
common: {user_dir: $PWD/sparse, cpu: true}
task: {_name: translation, data: $PWD/data}
model: {_name: transformer_sparse_near, encoder_layers: 1, encoder_embed_dim: 32,
        encoder_attention_heads: 4, decoder_layers: 1, decoder_attention_heads: 4}
criterion: {_name: cross_entropy}
optimizer: {_name: adam}
lr_scheduler: {_name: fixed}
optimization: {max_update: 1, lr: [0.001]}
dataset: {max_tokens: 500}
checkpoint: {save_dir: $PWD/under_hydra}
END
fairseq-hydra-train --config-dir . --config-name hydra
mkdir elsewhere
mv sparse data model under_hydra elsewhere
cd elsewhere
rm -r ../configs
CHECKPOINTS=model/checkpoint_last.pt:under_hydra/checkpoint_last.pt
fairseq-generate data --user-dir sparse --path $CHECKPOINTS --cpu --max-len-b 9 > generated.txt
grep -c ^H- generated.txt
fairseq-hybrid align under_hydra/checkpoint_last.pt --data data --user-dir sparse \
    --subwords none --device cpu --output links
cat links | wc -l
python -c "from fairseq_hybrid_attn.models import MMA
translator = MMA.from_pretrained('model', 'checkpoint_last.pt', 'data', user_dir='sparse')
print('translated to', translator.translate('ba de fi'))"
"""


def chapter(heading: str) -> str:
    (found,) = (text for text in CHAPTERS if text.startswith(f"{heading}\n"))
    return found


def write_files(text: str, folder: Path) -> None:
    """Write every block of code to the file that the line before it names."""
    blocks = re.findall(r"`([^`\n]+)`[^`\n]*:\n\n```\w+\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == text.count("\n```\n")
    for name, content in blocks:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)


def commands(text: str) -> str:
    without_code = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return "\n".join(re.findall(r"^ {4}(.*)$", without_code, re.MULTILINE))


def bash(lines: str, folder: Path, installed: Path) -> str:
    """What these lines print to standard output."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(installed),
        "PYTHONWARNINGS": "ignore",
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", lines],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


@pytest.fixture(scope="module")
def made(installed, tmp_path_factory):
    """The folder after the commands that all tutorials begin with."""
    folder = tmp_path_factory.mktemp("made")
    bash(commands(chapter("Text to try it on")), folder, installed)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("heading", SHOWN)
def test_tutorial(heading, installed, made, tmp_path):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    write_files(chapter(heading), tmp_path)
    (train,) = re.findall(r"^train.*?^}$", commands(chapter("Text to try it on")), re.M | re.S)
    imported = "python -c 'import importlib.util as u; print(u.find_spec(\"fairseq_hybrid_attn\"))'"
    lines = [train, commands(chapter(heading)), imported]
    lines += [AFTERWARDS] if heading == "A paper" else []
    printed = bash("\n".join(lines), tmp_path, installed)
    assert str(installed) in printed and " passed" in printed
    for name, words in SHOWN[heading].items():
        text = printed if name == "output" else (tmp_path / name).read_text()
        assert all(word in text for word in words), (name, text[-3000:])
