"""Python runs this at start where this folder is on PYTHONPATH: processes that tests start are guarded as well."""

import network_guard

network_guard.install()
