"""A configuration of many routes, for what is measured of a start."""

ROUTES = 200
ROUTE = """\
  route_{number}:
    description: Thing number {number} of the legacy server.
    request: GET legacy/things/{{id}}/{number}
    reply:
      - when: {{ status: 404 }}
        error: "Nothing under {{{{ args.id }}}}."
      - extract:
          pairs:
            separator: ":"
            fields: {{ state: string, pressure: number, turns: integer }}
        content: "{{{{ structured.state }}}}, {{{{ structured.pressure }}}} bar"
"""


def written(upstream="http://127.0.0.1:9"):
    """As YAML."""
    routes = "".join(ROUTE.format(number=number) for number in range(ROUTES))
    return f"upstreams: {{ legacy: '{upstream}' }}\nroutes:\n{routes}"
