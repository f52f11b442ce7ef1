"""LocalStack's runtime executor `process`: each execution environment of a function is a child process."""

import os
from pathlib import Path

from localstack import config
from localstack.services.lambda_.invocation.executor_endpoint import NAMESPACE, StatusErrorException
from localstack.services.lambda_.invocation.lambda_models import FunctionVersion, InvocationResult
from localstack.services.lambda_.invocation.plugins import RuntimeExecutorPlugin
from localstack.services.lambda_.invocation.runtime_executor import RuntimeExecutor

from stepwell_localstack import DYNAMODB_URL, FUNCTION_ENDPOINT_URL, FUNCTION_ENDPOINT_URL_DYNAMODB
from stepwell_localstack.bootstrap import Bootstrap, Invocation, failure

HOST = "127.0.0.1"
# As on AWS.
INIT_MAX_SECONDS = 10
# LocalStack has more of its own, which no function on AWS sees.
LAMBDA_DEFINED = (
    "AWS_ACCESS_KEY_ID",
    "AWS_DEFAULT_REGION",
    "AWS_LAMBDA_FUNCTION_MEMORY_SIZE",
    "AWS_LAMBDA_FUNCTION_NAME",
    "AWS_LAMBDA_FUNCTION_VERSION",
    "AWS_LAMBDA_INITIALIZATION_TYPE",
    "AWS_LAMBDA_LOG_FORMAT",
    "AWS_LAMBDA_LOG_GROUP_NAME",
    "AWS_LAMBDA_LOG_LEVEL",
    "AWS_LAMBDA_LOG_STREAM_NAME",
    "AWS_REGION",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "TZ",
    "_HANDLER",
)


class ProcessExecutorPlugin(RuntimeExecutorPlugin):
    """Found by the entry point."""

    name = "process"

    def load(self, *_args: object, **_kwargs: object) -> type[RuntimeExecutor]:
        """The class of the executors."""
        return ProcessExecutor


class ProcessExecutor(RuntimeExecutor):
    """One execution environment. A process that has ended is replaced at the next invocation."""

    def __init__(self, id: str, function_version: FunctionVersion) -> None:
        """Starts nothing yet."""
        super().__init__(id, function_version)
        self._bootstrap: Bootstrap | None = None
        self._environment: dict[str, str] = {}
        folder = Path(config.VOLUME_DIR) / "functions"
        folder.mkdir(parents=True, exist_ok=True)
        self._log = folder / f"{function_version.id.function_name}-{id}.log"
        self._log.touch()

    def start(self, env_vars: dict[str, str]) -> None:
        """Starts the process and waits until it asks for work."""
        self._environment = self._environment_of_function(env_vars)
        self._begin()

    def stop(self) -> None:
        """Kills the process."""
        if self._bootstrap:
            self._bootstrap.close()

    def invoke(self, payload: dict[str, str]) -> InvocationResult:
        """Hands over one event and waits. A timeout and a process that ends are function errors."""
        if not self._bootstrap.is_running:
            self._begin()
        request_id = payload["invoke-id"]
        begin_of_log = self._log.stat().st_size
        seconds = self.function_version.config.timeout
        outcome = self._bootstrap.invoke(
            Invocation(request_id, payload["invoked-function-arn"], payload["trace-id"], payload["payload"], seconds)
        )
        with self._log.open("rb") as log:
            log.seek(begin_of_log)
            lines = log.read().decode(errors="replace")
        lines = f"START RequestId: {request_id}\n{lines}\nEND RequestId: {request_id}"
        return InvocationResult(request_id, outcome.payload, outcome.is_error, lines)

    def get_address(self) -> str:
        """Where the process is."""
        return HOST

    def get_endpoint_from_executor(self) -> str:
        """Where the process finds LocalStack."""
        return HOST

    def get_runtime_endpoint(self) -> str:
        """A callback of LocalStack's own runtime, which is not used here."""
        return f"http://{HOST}:{config.GATEWAY_LISTEN[0].port}{NAMESPACE}/{self.id}"

    def get_logs(self) -> str:
        """All that the environment's processes have said."""
        return self._log.read_text(errors="replace")

    @classmethod
    def prepare_version(cls, function_version: FunctionVersion) -> None:
        """Unpacks the code."""
        runtime, code = function_version.config.runtime, function_version.config.code
        if not code or not (runtime or "").startswith("provided"):
            raise ValueError(f"the executor `process` runs provided.* functions from a zip file, not {runtime}")
        code.prepare_for_execution()

    @classmethod
    def cleanup_version(cls, function_version: FunctionVersion) -> None:
        """Nothing to do: LocalStack deletes the code."""

    def _begin(self) -> None:
        folder = self.function_version.config.code.get_unzipped_code_location()
        try:
            self._bootstrap = Bootstrap(folder, self._environment, self._log)
            error = self._bootstrap.ready.result(INIT_MAX_SECONDS)
        except TimeoutError:
            self._bootstrap.close()
            error = failure("Sandbox.Timedout", f"Error: no request for work within {INIT_MAX_SECONDS} seconds")
        except OSError as cause:
            error = failure("Runtime.InvalidEntrypoint", f"Error: {cause}")
        if error:
            raise StatusErrorException("the function's process did not begin to work", payload=error)

    def _environment_of_function(self, env_vars: dict[str, str]) -> dict[str, str]:
        folder = self.function_version.config.code.get_unzipped_code_location()
        return {
            "LANG": "en_US.UTF-8",
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            **(self.function_version.config.environment or {}),
            **{name: str(env_vars[name]) for name in LAMBDA_DEFINED if name in env_vars},
            "LAMBDA_TASK_ROOT": str(folder),
            # Last, so that no function reaches the real AWS by a setting of its own.
            "AWS_ENDPOINT_URL": os.environ.get(FUNCTION_ENDPOINT_URL, env_vars["AWS_ENDPOINT_URL"]),
            "AWS_ENDPOINT_URL_DYNAMODB": os.environ.get(FUNCTION_ENDPOINT_URL_DYNAMODB, os.environ[DYNAMODB_URL]),
        }
