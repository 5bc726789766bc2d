"""Hooks of schemathesis for the webhook: they sign its requests, and compare verdicts with the schema of events."""

import base64
import hashlib
import hmac
import json
import os
import time

import requests
import schemathesis
from schemathesis import GenerationMode

CONNECTION = os.environ["CONNECTION"]
SECRET = base64.b64decode(os.environ["SECRET"].removeprefix("whsec_"))
EVENTS = "/v1/events/{connection_id}"
REHEARSE = "/v1/rehearse/{connection_id}"
SIGNED = (EVENTS, REHEARSE, "/v1/reconcile/{connection_id}")
# The schema has no words for these: bytes of UTF-8, the decimals of a currency, and a sum that fits 64 bits.
BEYOND_THE_SCHEMA = {"bad_amount"}
NAMES = ("brand", "player_ref")
MAX_NAME_BYTES = 255
BY_THE_SCHEMA = {"no_idempotency_key", "malformed", "op_unknown", "no_player", "bad_amount"}


class Signer(requests.auth.AuthBase):
    """Signs the bytes that are sent, as Standard Webhooks specifies."""

    def __call__(self, request):
        body = request.body or b""
        body = body if isinstance(body, bytes) else body.encode()
        named = {name.lower(): value for name, value in request.headers.items()}
        parts = [text if isinstance(text, bytes) else text.encode("latin-1") for text in (
            named.get("webhook-id", ""), named.get("webhook-timestamp", ""))]
        signed = hmac.new(SECRET, b".".join([*parts, body]), hashlib.sha256).digest()
        request.headers["webhook-signature"] = "v1," + base64.b64encode(signed).decode()
        return request


# Known to the fuzzer as the right signature: it tries without one, and with a wrong one.
schemathesis.auth.set_from_requests(Signer()).apply_to(method="POST", path=list(SIGNED))


def is_negative(case, name):
    """Whether a part of the request breaks the schema on purpose."""
    return any(
        part.value == name and info.mode == GenerationMode.NEGATIVE for part, info in case.meta.components.items()
    )


@schemathesis.hook
def before_call(context, case, kwargs):
    if case.operation.path not in SIGNED or case.method.upper() != "POST" or case.meta is None:
        return
    if not is_negative(case, "path"):
        case.path_parameters["connection_id"] = CONNECTION
    if is_negative(case, "header"):
        return
    case.headers["webhook-timestamp"] = str(int(time.time()))


@schemathesis.check
def verdicts_fit_the_schema(context, response, case):
    """Each event has its verdict. No event that fits the schema is rejected for its form."""
    if response.status_code != 200 or case.operation.path not in (EVENTS, REHEARSE):
        return
    body = response.request.body
    sent = json.loads(body if isinstance(body, bytes) else body.encode())
    events = sent["events"] if isinstance(sent, dict) and "events" in sent else [sent]
    verdicts = response.json()["verdicts"]
    assert len(verdicts) == len(events), f"{len(verdicts)} verdicts on {len(events)} events"
    for event, verdict in zip(events, verdicts):
        if is_negative(case, "body") or verdict["reason"] not in BY_THE_SCHEMA - BEYOND_THE_SCHEMA:
            continue
        too_long = [name for name in NAMES if len(str(event.get(name, "")).encode()) > MAX_NAME_BYTES]
        assert too_long, f"an event of the schema is {verdict['verdict']}/{verdict['reason']}: {verdict['details']}"
