"""``python -m fairseq_hybrid_attn COMMAND``: the laboratory's command line, ``fairseq-hybrid``."""

from fairseq_hybrid_attn.lab.commands.command_line import main

if __name__ == "__main__":
    main()
