"""Configurations of many routes, for what is measured of a start."""

ROUTES = 200
BEGINNING = """\
  route_{number}:
    description: Thing number {number} of the legacy server.
    request: GET legacy/things/{{id}}/{number}
    response:
      - when: {{ status: 404 }}
        error: "Nothing under {{{{ args.id }}}}."
"""
ROUTE = BEGINNING + """\
      - extract:
          pairs:
            separator: ":"
            fields: {{ state: string, pressure: number, turns: integer }}
        content: "{{{{ structured.state }}}}, {{{{ structured.pressure }}}} bar"
"""
INPUT = """\
    input:
      type: object
      properties:
        id: { type: string, description: Which one., minLength: 1, maxLength: 40 }
        depth: { type: integer, minimum: 0, maximum: 9, default: 3 }
      required: [id]
      additionalProperties: false
"""


JQ_ROUTE = BEGINNING + """\
      - structured: >-
          {{ id, items: [.items[] | {{ name, kib: (.bytes / 1024 | floor) }}], total: ([.items[].bytes] | add) }}
        content: "{{{{ structured.id }}}}"
"""


# Which routes say their input.
ALL, HALF, NONE = range(ROUTES), range(0, ROUTES, 2), range(0)


def written(upstream="http://127.0.0.1:9", inputs=NONE, route=ROUTE):
    """As YAML."""
    with_input = route.replace("/{number}\n", "/{number}?depth={{depth}}\n")
    routes = (
        with_input.format(number=number) + INPUT if number in inputs else route.format(number=number)
        for number in range(ROUTES)
    )
    return f"upstreams: {{ legacy: '{upstream}' }}\nroutes:\n{''.join(routes)}"
