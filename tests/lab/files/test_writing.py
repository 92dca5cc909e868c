"""Writing files."""

from fairseq_hybrid_attn.lab.files.writing import atomic_write


def test_names_may_be_as_long_as_the_file_system_allows(tmp_path):
    path = tmp_path / ("n" * 252 + ".md")
    with atomic_write(path) as file:
        file.write(b"x")
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
