"""One process of a function, behind a runtime API of its own."""

import ctypes
import json
import os
import signal
import subprocess
import threading
import time
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue

from werkzeug import Request, Response
from werkzeug.exceptions import HTTPException
from werkzeug.routing import Map, Rule
from werkzeug.serving import WSGIRequestHandler, make_server

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)
# The death signal comes when the starting *thread* ends, so one that lives as long as LocalStack starts them all.
STARTER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="bootstrap-starter")
RUNTIME_API = Map(
    [
        Rule("/2018-06-01/runtime/invocation/next", methods=["GET"], endpoint="next"),
        Rule("/2018-06-01/runtime/invocation/<request>/response", methods=["POST"], endpoint="response"),
        Rule("/2018-06-01/runtime/invocation/<request>/error", methods=["POST"], endpoint="error"),
        Rule("/2018-06-01/runtime/init/error", methods=["POST"], endpoint="init_error"),
    ]
)


@dataclass(frozen=True)
class Outcome:
    """What a function has answered, or how it failed."""

    payload: bytes
    is_error: bool


@dataclass(frozen=True)
class Invocation:
    """One event on its way."""

    request_id: str
    arn: str
    trace_id: str
    payload: str
    seconds: int
    outcome: "Future[Outcome]" = field(default_factory=Future)


def failure(kind: str, message: str) -> bytes:
    """The payload that says what Lambda says."""
    return json.dumps({"errorType": kind, "errorMessage": message}).encode()


class Bootstrap:
    """A running process. It ends by itself, after a timeout, by `close`, or with LocalStack."""

    def __init__(self, folder: Path, environment: dict[str, str], log: Path) -> None:
        """Starts it; `OSError` where there is nothing to start."""
        self.ready: Future[bytes | None] = Future()
        """Done when it asks for work (`None`) or has failed to begin (the error's payload)."""
        self._invocations: SimpleQueue[Invocation | None] = SimpleQueue()
        self._current: Invocation | None = None
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True, request_handler=_Quiet)
        environment = environment | {"AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{self._server.server_port}"}
        try:
            self._process = STARTER.submit(_start, folder, environment, log).result()
        except OSError:
            self._server.server_close()
            raise
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        threading.Thread(target=self._watch, daemon=True).start()

    @property
    def is_running(self) -> bool:
        """Whether it can take an invocation."""
        return self._process.poll() is None

    def invoke(self, invocation: Invocation) -> Outcome:
        """Hands it over and waits for the outcome, for no longer than the function may take."""
        self._current = invocation
        self._invocations.put(invocation)
        if not self.is_running:
            self._fail_as_ended()
        try:
            return invocation.outcome.result(invocation.seconds)
        except TimeoutError:
            self.close()
            message = f"RequestId: {invocation.request_id} Error: Task timed out after {invocation.seconds}.00 seconds"
            return Outcome(failure("Sandbox.Timedout", message), is_error=True)

    def close(self) -> None:
        """Kills it, as Lambda does."""
        self._process.kill()
        self._process.wait()

    def _watch(self) -> None:
        self._process.wait()
        self._fail_as_ended()
        # A request for work that nobody reads any more must not hold its thread.
        self._invocations.put(None)
        self._server.shutdown()
        self._server.server_close()

    def _fail_as_ended(self) -> None:
        code = self._process.returncode
        how = f"exit status {code}" if code >= 0 else f"signal: {signal.strsignal(-code)}".lower()
        request = f"RequestId: {self._current.request_id} " if self._current else ""
        payload = failure("Runtime.ExitError", f"{request}Error: Runtime exited with error: {how}")
        _settle(self.ready, payload)
        if self._current:
            _settle(self._current.outcome, Outcome(payload, is_error=True))

    @Request.application
    def _answer(self, request: Request) -> Response:
        try:
            endpoint, values = RUNTIME_API.bind_to_environ(request.environ).match()
        except HTTPException as error:
            return error.get_response()
        if endpoint == "next":
            return self._next()
        if endpoint == "init_error":
            _settle(self.ready, request.get_data())
            return Response(status=202)
        current = self._current
        if current is None or current.request_id != values["request"]:
            return Response(failure("InvalidRequestID", "Invalid request ID"), status=400)
        _settle(current.outcome, Outcome(request.get_data(), is_error=endpoint == "error"))
        return Response(status=202)

    def _next(self) -> Response:
        _settle(self.ready, None)
        invocation = self._invocations.get()
        if invocation is None:
            return Response(status=410)
        deadline = int((time.time() + invocation.seconds) * 1000)
        headers = {
            "Lambda-Runtime-Aws-Request-Id": invocation.request_id,
            "Lambda-Runtime-Deadline-Ms": str(deadline),
            "Lambda-Runtime-Invoked-Function-Arn": invocation.arn,
            "Lambda-Runtime-Trace-Id": invocation.trace_id,
        }
        return Response(invocation.payload, headers=headers, mimetype="application/json")


class _Quiet(WSGIRequestHandler):
    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Says nothing: each invocation would be two lines."""


def _start(folder: Path, environment: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    parent = os.getpid()

    def die_with_parent() -> None:
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    with log.open("ab") as output:
        return subprocess.Popen(
            [folder / "bootstrap"],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # Between fork and exec, beside other threads: it does nothing but system calls.
            preexec_fn=die_with_parent,
        )


def _settle[T](future: "Future[T]", value: T) -> None:
    """The first word counts."""
    with suppress(InvalidStateError):
        future.set_result(value)
