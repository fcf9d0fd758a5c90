#!/usr/bin/env python3
"""Spans and metrics through a collector that is not ours: collector.py GLOSSATOR COLLECTOR FOLDER.

The collector (Rotel, of PyPI) takes OTLP over HTTP, reads it, and sends on what it has understood; that is what is
looked at here, decoded by OpenTelemetry's own library, and held against what config/book/reference/telemetry.md says.
"""

import gzip
import json
import pathlib
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

import legacy_http
import verdict
from verdict import equal, report

program, collector, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
folder.mkdir(parents=True, exist_ok=True)
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
spans, resources, metrics, asked = [], [], {}, []


class Legacy(legacy_http.Handler):
    def do_GET(self):
        asked.append(self.headers)
        self.say("no" if "down" in self.path else "all is well", 503 if "down" in self.path else 200)


class Behind(legacy_http.Handler):
    """What the collector sends to."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers["Content-Encoding"] == "gzip":
            body = gzip.decompress(body)
        if self.path.endswith("/v1/traces"):
            for of in ExportTraceServiceRequest.FromString(body).resource_spans:
                resources.append(said(of.resource.attributes))
                spans.extend(span for scope in of.scope_spans for span in scope.spans)
        else:
            for of in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                resources.append(said(of.resource.attributes))
                metrics.update((metric.name, metric) for scope in of.scope_metrics for metric in scope.metrics)
        self.say("")


def said(attributes):
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in attributes}


def serve(handler):
    server = legacy_http.Server(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"127.0.0.1:{server.server_port}"


def free():
    with socket.socket() as any_socket:
        any_socket.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{any_socket.getsockname()[1]}"


def ask(url, body=None, **headers):
    headers = {name.replace("_", "-"): value for name, value in headers.items()} | {"Content-Type": "application/json"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body and json.dumps(body).encode(), headers), timeout=10) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.read().decode()


def until(what, holds, seconds=20):
    for _ in range(seconds * 10):
        if holds():
            return
        time.sleep(0.1)
    report(what, False, f"not within {seconds} s: spans {[span.name for span in spans]}, metrics {sorted(metrics)}")
    verdict.end()


def reachable(address):
    host, port = address.split(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def start(name, *words):
    log = open(folder / f"{name}.log", "w")
    process = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    started.append(process)
    return process


def check(gateway, faces, operators):
    traced = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "a=1"}
    ask(f"{faces}/tools/well", {}, **traced)
    ask(f"{faces}/tools/down", {})
    call = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "well", "arguments": {}, "_meta": {
        "traceparent": f"00-{TRACE[::-1]}-{PARENT}-01",
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}}}
    ask(f"{faces}/mcp", call, Accept="application/json, text/event-stream", MCP_Protocol_Version="2026-07-28",
        Mcp_Method="tools/call", Mcp_Name="well")
    until("collector: the spans of three calls", lambda: len(spans) >= 8)

    of = said_by_resource("service.name")
    equal("collector: what we are called", {"weather"}, of)
    equal("collector: an attribute of the file", {"test"}, said_by_resource("deployment.environment.name"))
    rest = next(span for span in spans if span.trace_id.hex() == TRACE and span.kind == 2)
    equal("collector: a REST call is a part of its caller's trace", (PARENT, "a=1"), (rest.parent_span_id.hex(), rest.trace_state))
    expect("its span", rest, {
        "http.request.method": "POST", "http.response.status_code": 200, "url.path": "/tools/well", "url.scheme": "http",
        "gen_ai.tool.name": "well", "glossator.outcome": "success"})
    attempt = next(span for span in spans if span.parent_span_id == rest.span_id)
    expect("its attempt", attempt, {"http.request.method": "GET", "http.response.status_code": 200, "glossator.upstream": "old"})
    equal("collector: the upstream is told of that attempt", f"00-{TRACE}-{attempt.span_id.hex()}-01", asked[0]["traceparent"])
    failed = [span for span in spans if span.kind == 3 and said(span.attributes).get("error.type") == "503"]
    equal("collector: each attempt has a span, with how often it was repeated", [None, 1, 2],
          [said(span.attributes).get("http.request.resend_count") for span in sorted(failed, key=lambda span: span.start_time_unix_nano)])
    mcp = next(span for span in spans if span.name == "tools/call well")
    equal("collector: a call over MCP is a part of the trace in its `_meta`", (TRACE[::-1], PARENT), (mcp.trace_id.hex(), mcp.parent_span_id.hex()))
    expect("its span", mcp, {
        "mcp.method.name": "tools/call", "mcp.protocol.version": "2026-07-28", "gen_ai.tool.name": "well", "jsonrpc.request.id": "7"})
    http = next(span for span in spans if span.span_id == mcp.links[0].span_id)
    equal("collector: and links to its request", 2, http.kind)

    known = ["http.server.request.duration", "mcp.server.operation.duration", "glossator.call_duration", "process.cpu.time",
             "process.memory.usage", "glossator.calls"]
    until("collector: the metrics", lambda: all(name in metrics for name in known))
    for name in known:
        report(f"collector: {name}", True)
    point = metrics["mcp.server.operation.duration"].histogram.data_points[0]
    equal("collector: mcp.server.operation.duration has its attributes", ("tools/call", "well"),
          tuple(said(point.attributes).get(key) for key in ("mcp.method.name", "gen_ai.tool.name")))
    sums = [metric for metric in metrics.values() if metric.WhichOneof("data") == "sum" and metric.sum.is_monotonic]
    equal("collector: sums since the start", {2}, {metric.sum.aggregation_temporality for metric in sums})
    shown = set(re.findall(r"^# TYPE (\S+)", ask(f"{operators}/metrics"), re.M))
    others = [metric for name, metric in metrics.items() if name.startswith("glossator.")]
    strange = {metric.name: to_prometheus(metric) for metric in others if to_prometheus(metric) not in shown}
    report("collector: what it would hand to Prometheus has the names of /metrics", others and not strange, strange)
    result = dict(re.findall(r'^glossator_telemetry_spans_total\{result="(\w+)"\} (\d+)', ask(f"{operators}/metrics"), re.M))
    equal("collector: all that was sent was taken",
          {"rejected": "0", "export_failed": "0", "queue_full": "0"},
          {name: count for name, count in result.items() if name != "sent"})

    ask(f"{faces}/tools/well", {}, traceparent=f"00-{'1' * 32}-{PARENT}-01")
    gateway.terminate()
    equal("collector: told to stop, the program ends with status 0", 0, gateway.wait(timeout=30))
    until("collector: what waited has been sent", lambda: any(span.trace_id.hex() == "1" * 32 for span in spans))
    report("collector: what waited has been sent", True)


def said_by_resource(key):
    return {attributes.get(key) for attributes in resources}


def expect(what, span, attributes):
    found = said(span.attributes)
    equal(f"collector: {what} has its attributes", attributes, {key: found.get(key) for key in attributes})


def to_prometheus(metric):
    """As OpenTelemetry's specification, "Prometheus and OpenMetrics Compatibility", says."""
    name = re.sub(r"\W", "_", metric.name)
    unit = {"s": "seconds", "By": "bytes"}.get(metric.unit)
    if unit and not name.endswith(f"_{unit}"):
        name += f"_{unit}"
    if metric.WhichOneof("data") == "sum" and metric.sum.is_monotonic:
        name += "_total"
    return name


started = []
try:
    takes, sends = free(), serve(Behind)
    start("rotel", collector, "start", "--otlp-http-endpoint", takes, "--otlp-grpc-endpoint", free(), "--exporter", "otlp",
          "--otlp-exporter-endpoint", f"http://{sends}", "--otlp-exporter-protocol", "http",
          "--pid-file", str(folder / "rotel.pid"), "--log-file", str(folder / "rotel.out"))
    until("the collector starts", lambda: reachable(takes))
    faces, operators = free(), free()
    (folder / "glossator.yaml").write_text(f"""
server: {{ listen: "{faces}" }}
admin: {{ listen: "{operators}" }}
telemetry:
  endpoint: http://{takes}
  metrics_interval: 1s
  service_name: weather
  resource_attributes: {{ deployment.environment.name: test }}
upstreams: {{ old: "http://{serve(Legacy)}" }}
defaults: {{ retry: {{ max_attempts: 3, initial_backoff: 1ms }} }}
routes:
  well: {{ description: How it is., request: GET old/well }}
  down: {{ description: What is down., request: GET old/down }}
""")
    gateway = start("glossator", program, "run", "--config", str(folder / "glossator.yaml"))
    until("glossator starts", lambda: reachable(faces) and reachable(operators))
    check(gateway, f"http://{faces}", f"http://{operators}")
finally:
    for process in started:
        process.kill()
        process.wait()
verdict.end()
