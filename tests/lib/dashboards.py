# SPDX-License-Identifier: BSD-2-Clause
"""The dashboards of deploy/grafana: their panels, queries and variables."""
import glob
import json
import os
import re
import urllib.parse
from dataclasses import dataclass

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "deploy", "grafana")
LABEL_VALUES = re.compile(r"label_values\((\w+), *(\w+)\)")


@dataclass(frozen=True)
class Query:
    dashboard: str
    panel: str
    expression: str


@dataclass(frozen=True)
class Variable:
    name: str
    metric: str
    label: str

    def path(self):
        """Of Prometheus' API: the values, as Grafana asks for them."""
        return f"label/{self.label}/values?" + urllib.parse.urlencode({"match[]": self.metric})


def read():
    """{name: dashboard}; ValueError: a file that is no JSON."""
    found = {}
    for path in sorted(glob.glob(FOLDER + "/*.json")):
        with open(path, encoding="utf-8") as file:
            found[os.path.basename(path).removesuffix(".json")] = json.load(file)
    return found


def queries(board):
    name = board["uid"].removeprefix("escapement-")
    return [Query(name, panel["title"], target["expr"]) for panel in board["panels"] for target in panel["targets"]]


def variables(board):
    """Those that are read from Prometheus; another form of query than label_values(METRIC, LABEL): AttributeError."""
    return [Variable(one["name"], *LABEL_VALUES.fullmatch(one["query"]["query"]).groups())
            for one in board["templating"]["list"] if one["type"] == "query"]


def instant(expression, values, rate_s):
    """The path of Prometheus' API for a query now, with Grafana's variables replaced."""
    for name, value in dict(values, __rate_interval=f"{rate_s}s").items():
        expression = re.sub(rf"\$(?:{name}\b|{{{name}}})", value, expression)
    return "query?" + urllib.parse.urlencode({"query": expression})
