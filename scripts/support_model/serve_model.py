"""Serve a GGUF model to `paraphrase.py`: eight questions at once on one thread. Needs `pip install xllamacpp`.

Usage: `python -m scripts.support_model.serve_model MODEL.gguf 9001`
"""

import signal
import sys

import xllamacpp

SLOTS, SLOT_TOKENS = 8, 512


def main() -> None:
    params = xllamacpp.CommonParams()
    params.model.path, params.hostnames, params.port = sys.argv[1], ["127.0.0.1"], int(sys.argv[2])
    params.n_parallel, params.n_ctx = SLOTS, SLOTS * SLOT_TOKENS
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
