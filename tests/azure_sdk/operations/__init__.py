"""Every operation of azure-servicebus, as a program does it. See operation_table."""

from tests.azure_sdk.operation_table import PERFORMED as PERFORMED
from tests.azure_sdk.operations import administration as administration
from tests.azure_sdk.operations import messages as messages
from tests.azure_sdk.operations import receiving as receiving
from tests.azure_sdk.operations import sending as sending
from tests.azure_sdk.operations import sessions as sessions
from tests.azure_sdk.operations import topics as topics
