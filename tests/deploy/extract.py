#!/usr/bin/env python3
"""Read deploy/ as its readers would: extract.py REPOSITORY OUT_FOLDER.

Writes what each file would start (`NAME.args`, an argument a line) and the
configuration in the Kubernetes manifest, and reports what does not fit together.
"""

import json
import pathlib
import re
import shlex
import sys

import kubernetes_validate
import yaml

root, out = map(pathlib.Path, sys.argv[1:])
deploy = root / "deploy"
broken = 0


def report(what, good, why=""):
    global broken
    if good:
        print(f"  passed  {what}")
    else:
        broken += 1
        print(f"  FAILED  {what}: {why}")


def arguments(name, words):
    (out / f"{name}.args").write_text("".join(f"{word}\n" for word in words))


# -- Containerfile
lines = re.sub(r"\\\n", " ", (deploy / "Containerfile").read_text()).splitlines()
said = {}
for line in lines:
    if line and not line.startswith("#"):
        keyword, _, rest = line.partition(" ")
        said.setdefault(keyword, []).append(rest.strip())
entrypoint, command = json.loads(said["ENTRYPOINT"][-1]), json.loads(said["CMD"][-1])
arguments("container", entrypoint[1:] + command)
installed = next(rest for rest in said["COPY"] if rest.startswith("--from=build")).split()[-1]
report("Containerfile: starts the file that it installs", entrypoint[0] == installed, f"{entrypoint[0]} is not {installed}")
build = next(rest for rest in said["RUN"] if rest.startswith("cargo "))
report("Containerfile: builds what the CI builds", build == "cargo build --release --locked --bin glossator", build)
toolchain = re.search(r"^rust-version = \"(\d+)\.(\d+)", (root / "Cargo.toml").read_text(), re.M)
image = re.match(r"rust:(\d+)\.(\d+)", said["FROM"][0])
report(
    "Containerfile: its Rust is new enough for Cargo.toml",
    toolchain is None or tuple(map(int, image.groups())) >= tuple(map(int, toolchain.groups())),
    f"{said['FROM'][0]} against {toolchain and toolchain[0]}",
)
report("Containerfile: does not run as root", said.get("USER", ["0"])[-1].split(":")[0] not in ("0", "root"), said.get("USER"))

# -- systemd
unit = (deploy / "glossator.service").read_text()
start = re.findall(r"^ExecStart=(.*)$", unit, re.M)
report("systemd: one ExecStart", len(start) == 1, start)
arguments("systemd", shlex.split(start[0])[1:])

# -- Kubernetes
documents = [d for d in yaml.safe_load_all((deploy / "kubernetes.yaml").read_text()) if d]
by_kind = {d["kind"]: d for d in documents}
wanted = {"ConfigMap", "Deployment", "Service", "HorizontalPodAutoscaler", "NetworkPolicy"}
report("kubernetes: what it is made of", set(by_kind) == wanted, list(by_kind))
for document in documents:
    try:
        kubernetes_validate.validate(document, "1.31", strict=True)
        why = None
    except Exception as error:
        why = str(error)
    report(f"kubernetes: {document['kind']} is valid for Kubernetes 1.31", why is None, why)
config, deployment, service = by_kind["ConfigMap"], by_kind["Deployment"], by_kind["Service"]
(out / "kubernetes.yaml").write_text(config["data"]["glossator.yaml"])
pod = deployment["spec"]["template"]
report(
    "kubernetes: selectors meet the pod's labels",
    deployment["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    and service["spec"]["selector"].items() <= pod["metadata"]["labels"].items(),
)
containers = {c["name"]: c for c in pod["spec"]["containers"]}
glossator = containers["glossator"]
arguments("kubernetes", glossator["args"])
ports = {p["name"]: p["containerPort"] for p in glossator["ports"]}
listen = yaml.safe_load(config["data"]["glossator.yaml"])["server"]["listen"]
report("kubernetes: listens on the port that the pod names", listen == f"0.0.0.0:{ports['http']}", listen)
report("kubernetes: the Service leads there", service["spec"]["ports"][0]["targetPort"] == "http")
probes = [glossator[kind]["httpGet"] for kind in ("startupProbe", "readinessProbe", "livenessProbe")]
report("kubernetes: probes ask the operators' port", all(p["port"] == "operators" for p in probes), probes)
admin = yaml.safe_load(config["data"]["glossator.yaml"])["admin"]["listen"]
report("kubernetes: which is the one that it listens on", admin == f"0.0.0.0:{ports['operators']}", admin)
named = {port["port"] for rule in by_kind["NetworkPolicy"]["spec"]["ingress"] for port in rule["ports"]}
report("kubernetes: the NetworkPolicy names the pod's ports", named == set(ports), named)
scrape = pod["metadata"]["annotations"]["prometheus.io/port"]
report("kubernetes: Prometheus is told the right port", scrape == str(ports["operators"]), scrape)
scaled = by_kind["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]["name"]
report("kubernetes: what is scaled is there", scaled == deployment["metadata"]["name"], scaled)
(out / "kubernetes.probes").write_text("".join(f"{path}\n" for path in sorted({p["path"] for p in probes})))
volumes = {v["name"]: v for v in pod["spec"]["volumes"]}
mounts = [m for c in containers.values() for m in c["volumeMounts"]]
report("kubernetes: every mount has its volume", all(m["name"] in volumes for m in mounts), mounts)
report(
    "kubernetes: mounted files are in the ConfigMap",
    all(m.get("subPath", "glossator.yaml") in config["data"] for m in mounts)
    and all(v["configMap"]["name"] == config["metadata"]["name"] for v in volumes.values()),
)
report(
    "kubernetes: the legacy server is the one of deploy/legacy-nginx.conf",
    config["data"]["legacy-nginx.conf"] == (deploy / "legacy-nginx.conf").read_text(),
)

# -- compose
compose = yaml.safe_load((deploy / "compose.yaml").read_text())
service = compose["services"]["glossator"]
arguments("compose", service["command"])
sources = [v.split(":")[0] for s in compose["services"].values() for v in s.get("volumes", [])]
missing = [s for s in sources if not (deploy / s).is_file()]
report("compose: every mounted file exists", not missing, missing)
containerfile = (deploy / service["build"]["context"] / service["build"]["dockerfile"])
report("compose: builds from the Containerfile", containerfile.is_file(), containerfile)
report("compose: publishes on loopback only", all(p.startswith("127.0.0.1:") for p in service["ports"]), service["ports"])

# -- Alerts and dashboard: every metric that they name
alerts = (deploy / "prometheus-alerts.yaml").read_text()
board = json.loads((deploy / "grafana-dashboard.json").read_text())
expressions = [rule["expr"] for group in yaml.safe_load(alerts)["groups"] for rule in group["rules"]]
expressions += [target["expr"] for panel in board["panels"] for target in panel["targets"]]
metrics = sorted({name for expression in expressions for name in re.findall(r"(?:glossator|process)_\w+", expression)})
(out / "metrics.names").write_text("".join(f"{name}\n" for name in metrics))
ids = [panel["id"] for panel in board["panels"]]
report("grafana: every panel has an id of its own", len(ids) == len(set(ids)), ids)

sys.exit(1 if broken else 0)
