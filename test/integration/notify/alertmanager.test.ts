import type { IncomingMessage, ServerResponse } from "node:http";
import { expect, test } from "vitest";
import type { Notification } from "../../../src/model.ts";
import { type AlertmanagerOptions, createAlertmanagerNotifier } from "../../../src/notify/alertmanager/notifier.ts";
import type { SendOptions } from "../../../src/ports.ts";
import { failureOf, flood, useTarget } from "../../support/notify-targets.ts";
import { sampleNotification } from "../../support/sample-notification.ts";
import { testWithoutAnswer } from "../../support/unanswered-targets.ts";

const token = "canary-token-0123456789";
const hour = 3_600_000;

interface Alert {
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly startsAt: number;
  readonly endsAt: number;
  readonly generatorURL: string;
}

type Respond = (req: IncomingMessage, res: ServerResponse) => void;

/** An Alertmanager, with the rules of its API v2 and of its store. */
async function useAlertmanager({ respond, prefix = "" }: { respond?: Respond; prefix?: string } = {}) {
  const store = new Map<string, Alert>();
  const requests: string[] = [];

  /** Returns what is wrong, in the words of the API. */
  function put(posted: unknown, now: number): string | undefined {
    if (!Array.isArray(posted)) return "parsing alerts body failed";
    for (const { labels, annotations, startsAt, endsAt, generatorURL = "" } of posted as PostedAlert[]) {
      const kept = Object.fromEntries(Object.entries(labels).filter(([, value]) => value !== ""));
      const end = Date.parse(endsAt);
      const start = startsAt === undefined ? end : Date.parse(startsAt);
      if (Number.isNaN(start + end)) return "startsAt must be of type date-time";
      if (end < start) return "start time must be before end time";
      if (Object.keys(kept).length === 0) return "at least one label pair required";
      if (generatorURL !== "" && !URL.canParse(generatorURL)) return "generatorURL must be of type uri";
      if ("" in kept) return 'invalid label set: invalid name ""';
      const id = JSON.stringify(Object.entries(kept).toSorted());
      const old = store.get(id);
      const overlaps =
        old !== undefined && ((end > old.startsAt && end < old.endsAt) || (start > old.startsAt && start < old.endsAt));
      const earliest = overlaps ? Math.min(old.startsAt, start) : start;
      const latest = overlaps && end > now ? Math.max(old.endsAt, end) : end;
      store.set(id, { labels: kept, annotations, startsAt: earliest, endsAt: latest, generatorURL });
    }
    return undefined;
  }

  const origin = await useTarget((req, res) => {
    if (respond !== undefined) return respond(req, res);
    let body = "";
    req.setEncoding("utf8");
    req.on("data", (data: string) => (body += data));
    req.on("end", () => {
      requests.push(body);
      const answer = (status: number, text?: string) =>
        res.writeHead(status, { "content-type": "application/json" }).end(text && JSON.stringify(text));
      if (req.headers.authorization !== `Bearer ${token}`) return answer(401);
      if (req.method !== "POST" || req.url !== `${prefix}/api/v2/alerts`) return answer(404);
      if (req.headers["content-type"] !== "application/json") return answer(415, "unsupported media type");
      const wrong = put(JSON.parse(body), Date.now());
      return wrong === undefined ? answer(200) : answer(400, wrong);
    });
  });
  const url = `${origin}${prefix}`;
  return { url, requests, alerts: () => [...store.values()], active: () => activeOf(store.values()) };
}

function activeOf(alerts: Iterable<Alert>): Alert[] {
  return [...alerts].filter(({ endsAt }) => endsAt > Date.now());
}

interface PostedAlert extends Omit<Alert, "startsAt" | "endsAt" | "generatorURL"> {
  readonly startsAt?: string;
  readonly endsAt: string;
  readonly generatorURL?: string;
}

function connect(options: Partial<AlertmanagerOptions> & { readonly url: string }) {
  const notifier = createAlertmanagerNotifier({ token, ...options });
  return (message: Notification, more: Partial<SendOptions> = {}) =>
    notifier.send(message, { signal: AbortSignal.timeout(60_000), ...more });
}

const failure = (work: Promise<unknown>) => failureOf(work, /canary/);

const failed = (own: Partial<Notification> = {}) => sampleNotification({ at: Date.now() - 60_000, ...own });
const recovered = (own: Partial<Notification> = {}) =>
  failed({ state: "recovered", severity: "info", title: "shop: recovered", at: Date.now(), ...own });

test("a failed deployment is an alert for an hour, and says what failed", async () => {
  const { url, active } = await useAlertmanager();
  const message = failed();
  await connect({ url, labels: { team: "shop" } })(message);
  expect(active()).toEqual([
    {
      labels: {
        alertname: "TowlineDeployFailed",
        severity: "error",
        cluster: "test",
        thread: "t-77ab",
        team: "shop",
      },
      annotations: {
        summary: "shop: 3f2c1ab failed in 1 of 3 deployments",
        description: [
          "✗ shop/prod: deploy failed with 1 errors: ConfigMap/settings: is invalid",
          "… shop/dev",
          "Commit: 3f2c1ab Raise the limit",
          "Author: Ada",
          "Succeeded: 1 deployment",
        ].join("\n"),
      },
      startsAt: message.at,
      endsAt: expect.toSatisfy((endsAt: number) => Math.abs(endsAt - Date.now() - hour) < 60_000) as number,
      generatorURL: "https://git.example.com/shop/commit/3f2c1ab",
    },
  ]);
});

test("only an alert about exactly one deployment has its namespace and name", async () => {
  const { url, active } = await useAlertmanager();
  const send = connect({ url });
  const [line = { name: "", state: "failed", text: "" }] = failed().lines;
  await send(failed({ thread: "t-one", lines: [line] }));
  await send(failed({ thread: "t-more", lines: [line], linesLeftOut: 1 }));
  await send(failed({ thread: "t-preview", lines: [{ ...line, name: "the title of a pull request" }] }));
  await send(failed({ thread: "t-none", lines: [] }));
  await send(failed({ thread: "t-two" }));
  const labelled = active().filter(({ labels }) => "namespace" in labels || "name" in labels);
  expect(labelled).toMatchObject([{ labels: { thread: "t-one", namespace: "shop", name: "prod" } }]);
});

test("a recovery resolves the alert, even if severity, object and configured labels have changed", async () => {
  const { url, active, alerts } = await useAlertmanager();
  const opened = failed();
  const sent = await connect({ url, labels: { team: "shop" } })(opened);
  const after = await connect({ url, labels: { team: "web" } })(recovered({ object: undefined }), { sent });
  expect(active()).toEqual([]);
  expect(alerts()).toMatchObject([{ startsAt: opened.at, annotations: { summary: "shop: recovered" } }]);
  expect(after).toBeUndefined();
});

test("the alert of another thread stays active", async () => {
  const { url, active } = await useAlertmanager();
  const send = connect({ url });
  await send(failed({ thread: "t-other" }));
  const sent = await send(failed());
  await send(recovered(), { sent });
  expect(active()).toMatchObject([{ labels: { thread: "t-other" } }]);
});

test("what is open has a name of its own, and is resolved when it is closed", async () => {
  const { url, active } = await useAlertmanager();
  const send = connect({ url });
  const names = [
    ["drift", "TowlineDrift"],
    ["approval", "TowlineWaitsForApproval"],
    ["prune", "TowlinePruneWaits"],
    ["overdue", "TowlineCheckOverdue"],
    ["preview", "TowlinePreviewFailed"],
  ] as const;
  for (const [kind, alertname] of names) {
    const sent = await send(failed({ kind, state: "open", severity: "warning" }));
    expect(active()).toMatchObject([{ labels: { alertname, severity: "warning" } }]);
    await send(failed({ kind, state: "closed", severity: "info" }), { sent });
    expect(active()).toEqual([]);
  }
});

test("an alert that is sent again before it ends stays the same alert, and is active for another hour", async () => {
  const { url, alerts } = await useAlertmanager();
  const notifier = createAlertmanagerNotifier({ url, token });
  expect(notifier.refreshMs).toBeLessThanOrEqual(hour / 2);
  const send = connect({ url });
  const sent = await send(failed());
  const [first] = alerts();
  const again = await send(failed({ title: "shop: 2 of 3 deployments failed", severity: "warning" }), { sent });
  expect(again).toBe(sent);
  expect(alerts()).toMatchObject([
    { labels: first?.labels, startsAt: first?.startsAt, annotations: { summary: "shop: 2 of 3 deployments failed" } },
  ]);
  expect(alerts()[0]?.endsAt).toBeGreaterThanOrEqual(first?.endsAt ?? 0);
});

test("a failure after a recovery is a new alert, with the severity and the object that it has now", async () => {
  const { url, active } = await useAlertmanager();
  const send = connect({ url });
  const sent = await send(failed());
  const rest = await send(recovered(), { sent });
  await send(failed({ severity: "warning", at: Date.now() }), { sent: rest });
  expect(active()).toMatchObject([{ labels: { severity: "warning" } }]);
});

test("nothing is sent for what was never an alert, and what was sent is not forgotten", async () => {
  const { url, requests } = await useAlertmanager();
  const send = connect({ url });
  for (const state of ["progress", "succeeded", "recovered", "closed"] as const) {
    expect(await send(failed({ state }))).toBeUndefined();
    expect(await send(failed({ state }), { sent: "1712.5" })).toBe("1712.5");
  }
  expect(requests).toEqual([]);
  const sent = await send(failed());
  expect(await send(failed({ state: "progress" }), { sent })).toBe(sent);
  expect(requests).toHaveLength(1);
});

test("a sample is an alert that ends by itself, whatever its state", async () => {
  const { url, active } = await useAlertmanager();
  await connect({ url })(recovered({ sample: true }));
  expect(active()).toHaveLength(1);
  expect(active()[0]?.endsAt).toBeLessThan(Date.now() + hour / 10);
});

test("configured labels replace ours, except those that tell alerts apart", async () => {
  const { url, active } = await useAlertmanager();
  const labels = { severity: "critical", cluster: "eu-1", alertname: "All", thread: "all", "": "" };
  await connect({ url, labels })(failed());
  const expected = { severity: "critical", cluster: "eu-1", alertname: "TowlineDeployFailed", thread: "t-77ab" };
  expect(active()).toMatchObject([{ labels: expected }]);
});

test("labels contain neither the commit nor a message", async () => {
  const { url, active } = await useAlertmanager();
  await connect({ url })(failed());
  expect(JSON.stringify(active()[0]?.labels)).not.toMatch(/3f2c1ab|limit|deploy failed/);
});

test("a line without a text is only its name", async () => {
  const { url, active } = await useAlertmanager();
  const lines = [{ name: "shop: drift", state: "waiting", text: "" }] as const;
  await connect({ url })(failed({ lines, linesLeftOut: 3, facts: [] }));
  expect(active()[0]?.annotations["description"]).toBe("! shop: drift\nand 3 more");
});

test("a server with a prefix is found with and without a slash at its end", async () => {
  const { url, active } = await useAlertmanager({ prefix: "/alertmanager" });
  await connect({ url })(failed());
  await connect({ url: `${url}/` })(failed({ thread: "t-2" }));
  expect(active()).toHaveLength(2);
});

test("hostile text mentions nobody, links to nothing, and leaves room for what failed", async () => {
  const { url, active } = await useAlertmanager();
  const markup = "# <!channel>\r\n@everyone me@here @ada [click](https://evil.example) <b>\u202e\ud800";
  const hostile = `${markup} ${"x".repeat(100_000)}`;
  const lines = Array.from({ length: 200 }, (_, index) => ({
    name: index === 0 ? "shop/first" : `shop/${hostile}`,
    state: "failed" as const,
    text: index === 0 ? "is invalid" : hostile,
  }));
  const facts = [{ label: "Commit", value: hostile }];
  await connect({ url })(failed({ title: hostile, lines, facts, linesLeftOut: 7 }));
  const { summary = "", description = "" } = active()[0]?.annotations ?? {};
  for (const text of [summary, description]) {
    expect(text).not.toMatch(/[<>]|@everyone|@here|@ada|\]\(|^#|[\r\u202e]/m);
    expect(text.isWellFormed()).toBe(true);
  }
  expect([...summary].length).toBeLessThanOrEqual(300);
  expect(summary).not.toContain("\n");
  expect([...description].length).toBeLessThanOrEqual(4_000);
  expect(description).toMatch(/^✗ shop\/first: is invalid\n/);
  const shown = description.split("\n").filter((line) => line.startsWith("✗")).length;
  expect(description).toContain(`\nand ${207 - shown} more`);
});

test("an invalid link is left out, because Alertmanager would reject the alert", async () => {
  const { url, active } = await useAlertmanager();
  for (const link of ["not an address", "javascript:alert(1)", `https://x.example/${"y".repeat(100_000)}`]) {
    await connect({ url })(failed({ links: [{ label: "Commit", url: link }] }));
    expect(active()).toMatchObject([{ generatorURL: "" }]);
  }
});

test("a rejected login and a rejected alert are for a person", async () => {
  const { url } = await useAlertmanager();
  expect(await failure(connect({ url, token: "canary-wrong" })(failed()))).toMatchObject({ problem: "refused" });
  expect(await failure(connect({ url: `${url}/canary` })(failed()))).toMatchObject({ problem: "refused" });
  const early = failed();
  const sent = await connect({ url })(early);
  const wrong = JSON.stringify({ ...(JSON.parse(sent ?? "") as object), "": "x" });
  expect(await failure(connect({ url })(early, { sent: wrong }))).toMatchObject({ problem: "refused" });
});

test("a server that is busy, redirects or does not end its response is not waited for", async () => {
  const cases: [respond: Respond, problem: string, retryAfterMs?: number][] = [
    [(_req, res) => res.writeHead(503, { "retry-after": "7" }).end("canary"), "later", 7_000],
    [(_req, res) => res.writeHead(429, { "retry-after": "9" }).end(), "later", 9_000],
    [(_req, res) => res.writeHead(302, { location: "https://canary.example/" }).end(), "refused"],
    [(_req, res) => flood(res.writeHead(500)), "later"],
    [(req) => void req.socket.destroy(), "later"],
  ];
  for (const [respond, problem, retryAfterMs] of cases) {
    const { url } = await useAlertmanager({ respond });
    expect(await failure(connect({ url })(failed()))).toMatchObject({ problem, retryAfterMs });
  }
});

test("an endless response to an accepted alert is enough", async () => {
  const { url } = await useAlertmanager({ respond: (_req, res) => flood(res.writeHead(200)) });
  expect(await connect({ url })(failed())).toContain("TowlineDeployFailed");
});

testWithoutAnswer({ what: "a server", connect, sample: failed });
