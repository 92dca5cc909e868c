"""Let fairseq's programs end while batches are still being read.

fairseq reads batches ahead in a daemon thread.  If that is at work in torch when Python ends, the
process aborts ("terminate called without an active exception"), though its training is done.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time

from fairseq.data.iterators import BackgroundConsumer

#: Seconds after which a reader is given up, which waits for something else.
PATIENCE = 60


def end_readers() -> None:
    """Wait until each reader has ended, after the batch at hand."""
    for reader in threading.enumerate():
        if isinstance(reader, BackgroundConsumer):
            reader._max_len = 0
            latest = time.monotonic() + PATIENCE
            while reader.is_alive() and time.monotonic() < latest:
                with contextlib.suppress(queue.Empty):  # it may wait for a place in its queue
                    reader._queue.get(timeout=0.1)
