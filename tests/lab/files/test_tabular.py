"""A table prints the same numbers everywhere."""

from fairseq_hybrid_attn.lab.files.tabular import Grid

RECORDS = [{"n": 1, "what": "x|y", "mean": None}, {"n": 20, "what": "all", "mean": 0.123456}]
#: Numbers to the right, floats with three digits, None empty.
TERMINAL = """\
  N  what      mean
---  ------  ------
  1  x|y
 20  all      0.123"""
MARKDOWN = r"""
|   N | what   |   mean |
|-----|--------|--------|
|   1 | x\|y   |        |
|  20 | all    |  0.123 |"""


def test_a_table_in_all_formats():
    grid = Grid.of(RECORDS, {"N": "n", "what": "what", "mean": "mean"})
    assert [line.rstrip() for line in grid.terminal().splitlines()] == TERMINAL.splitlines()
    assert grid.markdown() == MARKDOWN.lstrip()
    assert grid.csv() == "N,what,mean\n1,x|y,\n20,all,0.123456\n"
    cells = ["=1+1", "+a", "-a", "@a", "-1.25", "-", "-1.5 +2", "a=b", "'a", -1.5]
    quoted = "'=1+1,'+a,'-a,'@a,-1.25,-,-1.5 +2,a=b,'a,-1.5\n"
    assert Grid(cells, [cells]).csv() == quoted * 2
    texts = Grid(["a", "b"], [["1", "2"]], left=1)
    assert texts.terminal().splitlines() == ["a      b", "---  ---", "1      2"]
    assert Grid(["a"], []).terminal().splitlines() == ["a", "---"]
