from tests.integration.declared import _clean_process as _clean_process
