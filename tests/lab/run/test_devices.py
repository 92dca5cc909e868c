"""The batch of an update has one size, however many devices share it."""

from refusals import check_refusals

from fairseq_hybrid_attn.lab.config.settings import Batch
from fairseq_hybrid_attn.lab.run.devices import (
    Devices,
    launcher,
    of_processes,
    share_out,
    slots,
    without_launcher,
)


def test_shares_make_the_batch_in_as_few_parts_as_fit_a_device():
    for tokens in (1000, 4096, 25000, 32768):
        for per_device in (512, 1024, 8192):
            for world in range(1, 1 + tokens // 512):
                at_once, times = share_out(Batch(tokens, per_device), world)
                assert at_once <= per_device
                assert (times - 1) * world * per_device < tokens
                assert tokens - world * times < at_once * times * world <= tokens
    assert share_out(Batch(25000), 2) == (6250, 2)
    assert share_out(Batch(4096), 8) == (512, 1)
    assert share_out(Batch(400), 2) == (200, 1)  # toys may be divided further


def test_jobs_is_the_number_of_slots(monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    for jobs, gpus in ((None, [0, 1]), (1, [0]), (3, [0, 1, 0])):
        assert [slot.visible for slot in slots(Devices("cuda"), jobs=jobs)] == [(x,) for x in gpus]
    assert len(slots(Devices("cuda", 3), jobs=4, pretend=True)) == 4
    assert len(slots(Devices("cpu"), jobs=1)) == 1
    assert slots(Devices("cpu"), jobs=1000) == slots(Devices("cpu"))


def test_devices_that_are_refused():
    check_refusals(
        [
            (lambda: share_out(Batch(4096), 9), "8 devices at most"),  # else no sentence would fit
            (lambda: slots(Devices("cpu", precision="fp16")), "fp32 or bf16 only"),
            (lambda: slots(Devices("cuda", 1000)), "1000 GPUs"),
            (lambda: slots(Devices("auto", 1000)), "1000 GPUs"),  # not on a CPU instead
            (lambda: launcher({"WORLD_SIZE": "2"}), "WORLD_SIZE"),
            # A script of sbatch without srun: one process, which would wait for others.
            (lambda: launcher({"SLURM_NTASKS": "2", "SLURM_PROCID": "0"}), "use torchrun or srun"),
        ],
        lambda ask: ask(),
    )


def test_world_of_torchrun_and_slurm():
    """Two tasks of a real SLURM train together in tests/lab/plan/test_slurm.py."""
    two = {"WORLD_SIZE": "2", "RANK": "0"}
    for variables in ({}, {"WORLD_SIZE": "1"}, {"SLURM_NTASKS": "1", "SLURM_PROCID": "0"}):
        assert launcher(variables) == {}
    assert launcher({**two, "PATH": "/bin"}) == two
    assert of_processes(Devices("cpu"), 2).world == 2


def test_runs_do_not_take_themselves_for_a_launchers_processes():
    theirs = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_PORT": "1", "SLURM_NTASKS": "2"}
    assert without_launcher({**theirs, "PATH": "/bin"}) == {"PATH": "/bin"}


def test_environment_of_a_run():
    cpu = Devices("cpu", threads=2).environment({"PATH": "/bin"})
    assert cpu["OMP_NUM_THREADS"] == "2" and cpu["PATH"] == "/bin"
    gpus = Devices("cuda", 2, (4, 5)).environment({"PATH": "/bin"})
    assert gpus == {"PATH": "/bin", "CUDA_VISIBLE_DEVICES": "4,5"}
    # A cluster gave us these four; ours are the second and third of them.
    given = Devices("cuda", 2, (1, 2)).environment({"CUDA_VISIBLE_DEVICES": "4,5,GPU-ab,7"})
    assert given["CUDA_VISIBLE_DEVICES"] == "5,GPU-ab"
