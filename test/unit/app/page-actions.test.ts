/** Which identity the server uses at the API server for an action of the page, and what the answers mean. */
import { describe, expect, test } from "vitest";
import type { Access } from "../../../src/web/access.ts";
import { seesAll } from "../../../src/web/sight.ts";
import { asWhom, createPageActions, groupsToImpersonate, type Mapping } from "../../../src/app/page-actions.ts";
import { ApiError } from "../../../src/errors.ts";
import type { KubeRequest } from "../../../src/kube/client.ts";
import type { GitDeployment, GitEvent, PushEvent, RepoId, Request } from "../../../src/model.ts";
import { type Action, actions } from "../../../src/requests/actions.ts";
import { aDeployment } from "../../support/deployments.ts";

const caller: Mapping = { actAs: "caller", viewerGroups: ["*", "dev"], operatorGroups: ["ops", "system:masters"] };

test.each<[string, Pick<Access, "name" | "groups">, Partial<Mapping>, object]>([
  ["somebody", { name: "ann", groups: ["ops", "hr", "dev"] }, {}, { as: "ann", asGroups: ["ops", "dev"] }],
  ["whoever has the token", { groups: [] }, {}, { as: "towline:page-token" }],
  [
    "somebody whom the cluster knows by a prefix",
    { name: "ann", groups: ["ops"] },
    { userPrefix: "oidc:", groupPrefix: "oidc:" },
    { as: "oidc:ann", asGroups: ["oidc:ops"] },
  ],
  ["a member of Kubernetes's own group", { name: "ann", groups: ["system:masters"] }, {}, { as: "ann", asGroups: [] }],
  ["anybody, to a server that asks as itself", { name: "system:admin", groups: ["ops"] }, { actAs: "server" }, {}],
])("%s reaches the API server under the right identity", (_who, access, mapping, as) => {
  expect(asWhom(access, { ...caller, ...mapping })).toEqual(as);
});

test("the server needs the right to impersonate every group that it may send", () => {
  expect(groupsToImpersonate({ ...caller, groupPrefix: "team:" })).toEqual([
    "team:ops",
    "team:system:masters",
    "team:dev",
  ]);
  expect(groupsToImpersonate(caller)).toEqual(["ops", "dev"]);
  expect(groupsToImpersonate({ ...caller, operatorGroups: [] })).toEqual([]);
  expect(groupsToImpersonate({ ...caller, actAs: "server" })).toEqual([]);
});

test("system names, the page token's name and names that are invalid in a header are never impersonated", () => {
  for (const name of ["system:admin", "System:kube-scheduler", "towline:page-token", "ann\r\nX: y", "änn", " "]) {
    expect(() => asWhom({ name, groups: [] }, caller), name).toThrow("cannot be accessed under your name");
  }
  expect(() => asWhom({ name: "admin", groups: [] }, { ...caller, userPrefix: "system:" })).toThrow();
});

const ann: Access = { until: 0, by: "oidc", name: "ann", groups: ["ops"], role: "operator" };
const key = { namespace: "shop", name: "prod" };
const waiting = aDeployment({ spec: { manual: true }, status: { lastObjectsHash: "one" } });

function useActions(found: GitDeployment | undefined, answer: (request: KubeRequest) => unknown = () => ({})) {
  const asked: KubeRequest[] = [];
  const deps = {
    deployments: {
      find: () => found,
      get: () => Promise.resolve(found),
      all: () => [],
      tracking: () => [],
      including: () => [],
    },
    client: {
      request(request: KubeRequest) {
        asked.push(request);
        return Promise.resolve().then(() => answer(request));
      },
    },
    accept: () => Promise.reject(new Error("not here")),
    deliveries: { event: () => Promise.resolve(undefined) },
    queue: { retryFailed: () => Promise.resolve(undefined) },
    mapping: caller,
    sight: () => Promise.resolve(seesAll),
    clock: { now: () => 0 },
  };
  const does = createPageActions(deps);
  const act = (action: Action, hash?: string) => does.act(key, { action, hash }, ann, () => {});
  return { does, act, asked };
}

test("each action is the same patch that kluctl's own tools make, sent in the caller's name", async () => {
  const bodies: Record<string, unknown> = {};
  for (const action of actions) {
    const suspended = action === "resume" ? aDeployment({ spec: { suspend: true } }) : waiting;
    const { act, asked } = useActions(suspended);
    await act(action, "one");
    const [{ method, path, as, asGroups, body } = { body: undefined }] = asked;
    expect({ method, path, as, asGroups }).toEqual({
      method: "PATCH",
      path: "/apis/gitops.kluctl.io/v1beta1/namespaces/shop/kluctldeployments/prod",
      as: "ann",
      asGroups: ["ops"],
    });
    bodies[action] = JSON.parse(JSON.stringify(body).replaceAll(/\w{8}-\w{4}-\w{4}-\w{4}-\w{12}/g, "id"));
  }
  const request = (kind: string) => ({
    metadata: { annotations: { [`kluctl.io/request-${kind}`]: '{"requestValue":"id"}' } },
  });
  expect(bodies).toEqual({
    ...Object.fromEntries(["reconcile", "deploy", "validate", "prune"].map((kind) => [kind, request(kind)])),
    suspend: { spec: { suspend: true } },
    resume: { spec: { suspend: null } },
    approve: { metadata: { resourceVersion: waiting.resourceVersion }, spec: { manualObjectsHash: "one" } },
  });
});

test("a deployment of the legacy API gets legacy annotations, and only the actions that it supports", async () => {
  const { act, asked, does } = useActions({ ...aDeployment(), apiVersion: "flux.kluctl.io/v1alpha1" });
  await act("deploy");
  expect(asked).toMatchObject([
    {
      path: "/apis/flux.kluctl.io/v1alpha1/namespaces/shop/kluctldeployments/prod",
      body: { metadata: { annotations: { "deploy.flux.kluctl.io/requestedAt": "1970-01-01T00:00:00.000Z" } } },
    },
  ]);
  await expect(act("prune")).rejects.toMatchObject({ status: 409 });
  expect(await does.possible(key, ann)).toMatchObject({ validate: { may: false } });
});

test("an action that makes no sense is refused before any request to the API server", async () => {
  const refused: [Action, GitDeployment | undefined, string | undefined, number][] = [
    ["deploy", undefined, undefined, 404],
    ["deploy", aDeployment({ deletionTimestamp: "2026-01-01T00:00:00Z" }), undefined, 409],
    ["suspend", aDeployment({ spec: { suspend: true } }), undefined, 409],
    ["resume", aDeployment(), undefined, 409],
    ["approve", aDeployment(), "one", 409],
    [
      "approve",
      aDeployment({ spec: { manual: true, manualObjectsHash: "one" }, status: { lastObjectsHash: "one" } }),
      "one",
      409,
    ],
    ["approve", waiting, "another", 409],
    ["approve", waiting, undefined, 409],
  ];
  for (const [action, deployment, hash, status] of refused) {
    const { act, asked } = useActions(deployment);
    await expect(act(action, hash), action).rejects.toMatchObject({ name: "RequestError", status });
    expect(asked).toEqual([]);
  }
});

test("an API server error becomes a message that says whose permission is missing or what happened", async () => {
  const says: [number, string, number, RegExp][] = [
    [
      403,
      'users "ann" is forbidden: User "t" cannot impersonate resource "users"',
      403,
      /^The server is not allowed to impersonate ann/,
    ],
    [403, 'User "ann" cannot patch resource', 403, /^The cluster does not allow ann to do this/],
    [404, "not found", 404, /^There is no KluctlDeployment/],
    [409, "the object has been modified", 409, /^The resource is being changed/],
    [0, "no response within 10000 ms", 503, /^The API server returned an unexpected response/],
  ];
  for (const [status, message, answered, words] of says) {
    const { act } = useActions(waiting, () => {
      throw new ApiError(status, `PATCH /apis/x: ${status} ${message}`);
    });
    await expect(act("approve", "one")).rejects.toMatchObject({
      status: answered,
      message: expect.stringMatching(words) as string,
    });
  }
});

test("the page disables the actions that the caller is not allowed to do", async () => {
  const may = useActions(waiting, () => ({ status: { allowed: true } }));
  expect(await may.does.possible(key, ann)).toEqual({
    ...Object.fromEntries(actions.map((action) => [action, { may: true }])),
    resume: { may: false, why: "The deployment is not suspended." },
    approve: { may: true, hash: "one" },
  });
  expect(may.asked).toMatchObject([{ as: "ann", asGroups: ["ops"] }]);
  const not = useActions(waiting, () => ({ status: { allowed: false } }));
  expect(await not.does.possible(key, ann)).toMatchObject({
    deploy: { may: false, why: "ann is not allowed to patch KluctlDeployments in shop." },
    approve: { may: false, hash: "one" },
  });
  const viewer = await not.does.possible(key, { ...ann, role: "viewer" });
  expect(viewer).toMatchObject({ deploy: { may: false, why: "ann has read-only access." } });
  const unable = useActions(waiting, () => {
    throw new ApiError(403, 'POST /apis/x: 403 users "ann" is forbidden: User "t" cannot impersonate resource "users"');
  });
  expect(await unable.does.possible(key, ann)).toMatchObject({
    deploy: {
      may: false,
      why: expect.stringMatching(/^The server is not allowed to impersonate ann.*docs\/rights\.md/) as string,
    },
  });
});

describe("an action on several deployments", () => {
  const repo = "git.example.com/shop/shop" as RepoId;
  const deployments = ["shop", "bank"].map((namespace) => aDeployment({ key: { namespace, name: "a" }, repo }));
  const event: PushEvent = {
    kind: "push",
    forge: "gitea",
    delivery: "d",
    repoUrls: ["https://git.example.com/shop/shop.git"],
    repoName: "shop/shop",
    ref: "refs/heads/main",
    change: "updated",
    changed: { paths: [], complete: true },
  };
  const pullRequest = { forge: "gitea", repoName: "shop/shop", number: 7 };
  const commit = { forge: "gitea", repoName: "shop/shop", commit: "c" };
  const requests: readonly Request[] = [
    { kind: "reconcile", deployment: { namespace: "bank", name: "a" }, cause: "push" },
    { kind: "preview", pullRequest, cause: "pull-request" },
    { kind: "report", pullRequest },
    { kind: "commit-status", commit, repo },
  ];

  const base = "b".repeat(40);
  const branch = `gh-readonly-queue/main/pr-7-${base}`;
  const group = { forge: "gitea", repoName: "shop/shop", commit: base, branch, base };
  const groupEvent: GitEvent = { ...group, kind: "merge-group", delivery: "g", repoUrls: [], ended: false };

  function useAll(allowed: readonly string[], sees: readonly string[] = ["shop", "bank"]) {
    const asked: KubeRequest[] = [];
    const done: string[] = [];
    const request = { current: requests[0] as Request };
    const does = createPageActions({
      deployments: {
        find: ({ namespace }) => deployments.find(({ key }) => key.namespace === namespace),
        get: () => Promise.resolve(undefined),
        all: () => deployments,
        tracking: (wanted) => deployments.filter((one) => one.repo === wanted),
        including: () => [],
      },
      client: {
        request(asking: KubeRequest) {
          asked.push(asking);
          const { spec } = asking.body as { spec: { resourceAttributes: { namespace: string } } };
          return Promise.resolve({ status: { allowed: allowed.includes(spec.resourceAttributes.namespace) } });
        },
      },
      accept: () => (done.push("replay"), Promise.resolve({ delivery: "d", matched: 2, queued: 2, ignored: [] })),
      deliveries: { event: (_forge, id) => Promise.resolve(id === "g" ? groupEvent : event) },
      queue: {
        async retryFailed(_lane, _subject, allow) {
          await allow?.(request.current);
          done.push(request.current.kind);
          return { queued: true };
        },
      },
      mapping: caller,
      sight: () => Promise.resolve((namespace) => sees.includes(namespace)),
      clock: { now: () => 0 },
    });
    return { does, asked, done, request };
  }

  test("is checked with the API server for each namespace, in the caller's name", async () => {
    const { does, asked, done, request } = useAll(["shop", "bank"]);
    await does.replay("gitea", "d", ann, () => {});
    expect(asked).toMatchObject(
      ["shop", "bank"].map((namespace) => ({
        path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        as: "ann",
        asGroups: ["ops"],
        body: { spec: { resourceAttributes: { verb: "patch", resource: "kluctldeployments", namespace } } },
      })),
    );
    for (const one of requests) {
      request.current = one;
      await does.retry("any", "any", ann, () => {});
    }
    expect(done).toEqual(["replay", "reconcile", "preview", "report", "commit-status"]);
  });

  test("is refused if the caller may not request all of it or cannot see all of it", async () => {
    for (const { does, done, request } of [useAll(["shop"]), useAll(["shop", "bank"], ["shop"])]) {
      for (const delivery of ["d", "g"])
        await expect(does.replay("gitea", delivery, ann, () => {})).rejects.toMatchObject({ status: 403 });
      for (const one of requests) {
        request.current = one;
        await expect(does.retry("any", "any", ann, () => {})).rejects.toMatchObject({ status: 403 });
      }
      expect(done).toEqual([]);
    }
  });
});
