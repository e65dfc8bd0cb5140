from tests.integration.declared import _clean_process as _clean_process
from tests.integration.declared import listener as listener
