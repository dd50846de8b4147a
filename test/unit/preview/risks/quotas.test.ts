import { expect, test } from "vitest";
import type { ResultObject } from "../../../../src/model.ts";
import { changed, created, linesOf, objectOf } from "./find.ts";

interface Given {
  readonly replicas?: number | undefined;
  readonly requests?: object;
  readonly limits?: object;
  /** The number of its containers. */
  readonly times?: number;
}

function workload({ replicas, requests = {}, limits = {}, times = 1 }: Given) {
  const containers = Array.from({ length: times }, (_, i) => ({ name: `c${i}`, resources: { requests, limits } }));
  return { spec: { replicas, template: { spec: { containers } } } };
}

const grown = (before: Given, after: Given) => changed("apps/Deployment", workload(before), workload(after));

function named(name: string, object: ResultObject): ResultObject {
  return { ...object, ref: { ...object.ref, name } };
}

function unchanged(id: string, state: object, live: object = state): ResultObject {
  const rendered = JSON.stringify(state);
  return objectOf(id, { rendered, applied: rendered, remote: JSON.stringify(live) });
}

function quota(hard: object, { used, ...more }: { readonly used?: object; readonly scopes?: readonly string[] } = {}) {
  const spec = { hard, ...more };
  return unchanged("/ResourceQuota", { spec }, { spec, status: { hard, used } });
}

const line = "availability: its pods exceed a quota of their namespace: those beyond it are not created";
const excessOf = (object: ResultObject, beside: readonly ResultObject[]) =>
  linesOf(object, { beside }).filter((each) => each === line).length;

const small = { requests: { cpu: "250m", memory: "128Mi" }, limits: { cpu: "1", memory: "256Mi" } };

test.each([
  ["pods", quota({ pods: "4" }), true],
  ["as many as it allows", quota({ pods: 5 }), false],
  ["objects", quota({ "count/pods": "4" }), true],
  ["requested CPU", quota({ cpu: "1" }), true],
  ["as much as it allows", quota({ "requests.cpu": "1250m" }), false],
  ["requested memory", quota({ "requests.memory": "512Mi" }), true],
  ["limited CPU", quota({ "limits.cpu": "4" }), true],
  ["limited memory", quota({ "limits.memory": "2Gi" }), false],
  ["other amounts", quota({ "requests.storage": "1", "count/secrets": "0", pods: "many" }), false],
  ["only some pods", quota({ pods: "4" }, { scopes: ["Terminating"] }), false],
  ["another namespace", { ...quota({ pods: "1" }), ref: { ...quota({}).ref, namespace: "other" } }, false],
] as const)("a workload that grows from two to five pods, and a quota: %s", (_, limit, exceeds) => {
  expect(excessOf(grown({ replicas: 2, ...small }, { replicas: 5, ...small }), [limit])).toBe(exceeds ? 1 : 0);
});

test("requests that grow count as pods do, and so do all containers, and limits in place of requests", () => {
  const limit = quota({ "requests.memory": "1Gi" });
  const of = (memory: string, times = 1): Given => ({ replicas: 2, requests: { memory }, times });
  expect(excessOf(grown(of("256Mi"), of("600Mi")), [limit])).toBe(1);
  expect(excessOf(grown(of("256Mi"), of("300Mi")), [limit])).toBe(0);
  expect(excessOf(grown(of("300Mi"), of("300Mi", 2)), [limit])).toBe(1);
  expect(excessOf(grown({ replicas: 2 }, { replicas: 2, limits: { memory: "600Mi" } }), [limit])).toBe(1);
});

test("workloads of the namespace count together, and only those that grow are to blame", () => {
  const [web, api] = [
    grown({ replicas: 1 }, { replicas: 3 }),
    named("api", unchanged("apps/StatefulSet", workload({ replicas: 2 }))),
  ];
  expect(excessOf(web, [api, quota({ pods: 4 })])).toBe(1);
  expect(excessOf(web, [api, quota({ pods: 5 })])).toBe(0);
  const shrinking = named("old", grown({ replicas: 5 }, { replicas: 1 }));
  expect(excessOf(shrinking, [web, api, quota({ pods: 4 })])).toBe(0);
  const fresh = created("apps/Deployment", workload({ replicas: 3 }));
  expect(excessOf(fresh, [api, quota({ pods: 4 })])).toBe(1);
});

test("what the API server counts in the quota is counted, too: that of other projects, and of what goes away", () => {
  const web = grown({ replicas: 2 }, { replicas: 4 });
  expect(excessOf(web, [quota({ pods: 10 }, { used: { pods: "9" } })])).toBe(1);
  expect(excessOf(web, [quota({ pods: 10 }, { used: { pods: "8" } })])).toBe(0);
  const gone = named(
    "old",
    objectOf("apps/Deployment", { deleted: true, remote: JSON.stringify(workload({ replicas: 3 })) }),
  );
  expect(excessOf(web, [gone, quota({ pods: 10 }, { used: { pods: "9" } })])).toBe(0);
});

test("a quota that was exceeded before, and pods of which an autoscaler decides, are not reported", () => {
  const web = grown({ replicas: 3 }, { replicas: 4 });
  expect(excessOf(web, [quota({ pods: 2 })])).toBe(0);
  expect(excessOf(grown({ replicas: 2 }, {}), [quota({ pods: 1 })])).toBe(0);
  expect(excessOf(created("apps/Deployment", workload({})), [quota({ pods: 0 })])).toBe(0);
  expect(excessOf(created("apps/DaemonSet", workload({ replicas: 3 })), [quota({ pods: 0 })])).toBe(0);
});

test("what else is used counts only as far as the share of the project's own pods in it is known", () => {
  // Before: 2 × 250m that the project states, of 900m that are used.
  const limit = quota({ "requests.cpu": "1" }, { used: { "requests.cpu": "900m" } });
  const of = (cpu: string | undefined, init: readonly object[] = []): object => {
    const { spec } = workload({ replicas: 2, requests: cpu === undefined ? {} : { cpu } });
    const { containers } = spec.template.spec;
    return { spec: { ...spec, template: { spec: { containers, ...(init.length > 0 && { initContainers: init }) } } } };
  };
  const from = (before: object, after: object) => excessOf(changed("apps/Deployment", before, after), [limit]);
  const init = [{ name: "migrate", resources: { requests: { cpu: "450m" } } }];
  expect(from(of("250m"), of("350m"))).toBe(1);
  // The 900m may be the project's own, by a default of the namespace or by what an init container needs.
  expect(from(of(undefined), of("350m"))).toBe(0);
  expect(from(of("250m", init), of("350m", init))).toBe(0);
  expect(from(of("250m", init), of("600m"))).toBe(1);
});

test("a new quota below what the project already runs is a risk, and a larger one is none", () => {
  const fresh = (hard: object) => created("/ResourceQuota", { spec: { hard } });
  const web = named("web", unchanged("apps/Deployment", workload({ replicas: 3, ...small })));
  const at = (hard: object) => linesOf(fresh(hard), { beside: [web] });
  const already = ["availability: the project's pods exceed it already: those that end are not replaced"];
  expect(at({ pods: 2 })).toEqual(already);
  expect(at({ "limits.memory": "512Mi" })).toEqual(already);
  expect(at({ pods: 3, "requests.cpu": "1" })).toEqual([]);
  const shrinking = named("web", grown({ replicas: 3 }, { replicas: 2 }));
  expect(linesOf(fresh({ pods: 2 }), { beside: [shrinking] })).toEqual([]);
});
