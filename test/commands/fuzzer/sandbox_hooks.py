"""Hooks of schemathesis for the sandbox: they sign its calls, and name games and sessions that exist."""

import hashlib
import hmac
import os
import time

import requests
import schemathesis
from schemathesis import GenerationMode

KEY, SECRET = os.environ["KEY"], os.environ["SECRET"]
# A game that the sandbox has, and the session of a launch.
GAME, SESSION = os.environ["GAME"], os.environ["SESSION"]
SUPPORTED = {"launchGame", "launchDemo", "issueGrant", "endSession", "playRound", "getRound"}
FAULT, DELAY = "x-sandbox-fault", "x-sandbox-delay-ms"


class Signer(requests.auth.AuthBase):
    """Signs the bytes that are sent."""

    def __call__(self, request):
        body = request.body or b""
        body = body if isinstance(body, bytes) else body.encode()
        timestamp = str(int(time.time()))
        head = f"{timestamp}.{request.method}.{request.path_url}.".encode()
        request.headers["x-api-key-id"] = KEY
        request.headers["x-timestamp"] = timestamp
        request.headers["x-signature"] = hmac.new(SECRET.encode(), head + body, hashlib.sha256).hexdigest()
        return request


# Known to the fuzzer as the right signature: it tries without one, and with a wrong one.
schemathesis.auth.set_from_requests(Signer())


def is_negative(case, name):
    """Whether a part of the request breaks the schema on purpose."""
    return case.meta is None or any(
        part.value == name and info.mode == GenerationMode.NEGATIVE for part, info in case.meta.components.items()
    )


@schemathesis.hook
def before_call(context, case, kwargs):
    if not is_negative(case, "header"):
        # Any text is a header. A fault that is none is refused, and a long delay would fill the time.
        case.headers.pop(FAULT, None)
        case.headers.pop(DELAY, None)
    if is_negative(case, "body") or not isinstance(case.body, dict):
        return
    # This operator has one brand.
    case.body.pop("brand", None)
    if "game" in case.body:
        case.body["game"] = GAME
    if "session_id" in case.body and case.operation.label != "POST /sandbox/endSession":
        case.body["session_id"] = SESSION


@schemathesis.check
def the_sandbox_says_so(context, response, case):
    """Each answer says that a sandbox gave it."""
    assert response.headers.get("x-sandbox") == ["promo-intake"], "the header X-Sandbox is missing"
    body = response.json()
    assert body.get("sandbox") is True or body["message"].endswith("(sandbox)"), "the body does not say sandbox"


@schemathesis.check
def server_errors_are_ordered(context, response, case):
    """A call fails in the sandbox only where its header orders it."""
    assert response.status_code < 500 or FAULT in response.request.headers, "a server error that nobody ordered"


@schemathesis.check
def wrong_bodies_are_refused(context, response, case):
    """A body that breaks the schema has no effect."""
    operation = case.operation.definition.raw.get("operationId")
    if operation in SUPPORTED and case.meta is not None and is_negative(case, "body"):
        assert response.status_code >= 400, f"a wrong body is answered with {response.status_code}"


@schemathesis.check
def valid_calls_are_taken(context, response, case):
    """A call that fits the schema is never a wrong request."""
    operation = case.operation.definition.raw.get("operationId")
    if is_negative(case, "body") or is_negative(case, "header") or is_negative(case, "query"):
        return
    if case.method.upper() != "POST" or response.status_code in (401, 404, 409):
        return
    if operation not in SUPPORTED:
        assert response.status_code == 422, f"{operation} is answered with {response.status_code}"
    elif operation == "playRound":
        # Not every amount of the schema fits a currency, and this sandbox has no wallet.
        assert response.status_code in (200, 202, 400, 422), f"a round is answered with {response.status_code}"
    else:
        assert response.status_code == 200, f"{operation} is answered with {response.status_code}: {response.text}"
