"""The command line: its list of commands."""

import pytest

from fairseq_hybrid_attn.lab.commands.command_line import COMMANDS, main


def test_help_lists_every_command_in_a_line_of_80_columns(capsys):
    for arguments, code in (["--help"], 0), ([], 2), (["scores"], 2):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == code
    out, err = capsys.readouterr()
    assert "no command 'scores'; did you mean score" in err
    lines = out.splitlines()
    assert max(map(len, lines)) <= 80
    listed = [line.split()[0] for line in lines if line.startswith("  ")]
    assert [name for name in listed if name in COMMANDS] == list(COMMANDS)
