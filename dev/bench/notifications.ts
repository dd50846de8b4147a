/** From a push on a real git host to the message about it, and the requests to that host. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { now } from "./clock.ts";
import { isReady, type KubernetesObject } from "./cluster.ts";
import { median, type Measurement, milliseconds, quantile, type Report } from "./measurement.ts";
import { prepare } from "./previews.ts";
import { pushRelease } from "./project.ts";
import type { Stage } from "./stage.ts";

/** What the last status of a push may still cause. */
const quietMs = 8_000;
const patienceMs = 300_000;
const mostRequests = 12;

interface Heard {
  /** Sent by one push. */
  readonly messages: number;
  /** From the moment at which all deployments were `Ready` to the message, in milliseconds. */
  readonly afterReadyMs: number;
  /** From the end of `git push`. */
  readonly afterPushMs: number;
  /** Requests to the API of the git host, by method. */
  readonly asked: readonly { readonly method: string }[];
}

export const notifications: Measurement = {
  name: "notifications",
  title: "From a push to the message about it",
  async run(stage) {
    const one = await measure(stage, 1, stage.quick ? 3 : 12);
    const count = stage.quick ? 20 : 200;
    const many = await measure(stage, count, 2);
    const row = (who: string, all: readonly Heard[]) => [
      who,
      String(all.length),
      milliseconds(median(all.map(({ afterReadyMs }) => afterReadyMs))),
      milliseconds(
        quantile(
          all.map(({ afterReadyMs }) => afterReadyMs),
          1,
        ),
      ),
      milliseconds(median(all.map(({ afterPushMs }) => afterPushMs))),
      String(Math.max(...all.map(({ messages }) => messages))),
    ];
    const requests = (all: readonly Heard[], method?: string) =>
      Math.max(
        ...all.map(({ asked }) => asked.filter((each) => method === undefined || each.method === method).length),
      );
    const asked = (who: string, all: readonly Heard[]) => [
      who,
      String(requests(all)),
      String(requests(all, "POST")),
      String(requests(all, "GET")),
    ];
    const atMost = (what: string, wanted: number, measured: number) => ({
      what: `${count} deployments, one push: ${what}`,
      wanted: `≤ ${wanted}`,
      measured: String(measured),
      met: measured <= wanted,
    });
    return {
      how:
        `Pushes to a repository on Gitea with one deployment, and with ${count}, of three objects each, of which one changes. The target is a webhook, ` +
        "whose messages cannot be changed, so a message waits until the deployments of the commit have been quiet for five seconds.",
      tables: [
        {
          head: ["deployments", "pushes", "`Ready` → message, p50", "max", "push → message, p50", "messages per push"],
          rows: [row("1", one), row(String(count), many)],
        },
        {
          head: ["requests to the git host's API per push, with its statuses", "all", "POST", "GET"],
          rows: [asked("1 deployment", one), asked(`${count} deployments`, many)],
        },
      ],
      goals: [
        atMost("messages", 1, Math.max(...many.map(({ messages }) => messages))),
        atMost("requests to the git host's API", mostRequests, requests(many)),
      ],
      memory: [],
    } satisfies Report;
  },
};

async function measure(stage: Stage, count: number, pushes: number): Promise<readonly Heard[]> {
  const receiver = await startReceiver();
  stage.defer(() => receiver.stop());
  const more = { notified: receiver.url };
  const scene = await prepare(stage, count, "off", `bench-notifications-${count}`, more);
  const { repository, deployments, names, proxy } = scene;
  await delay(quietMs);
  const all: Heard[] = [];
  for (let i = 1; i <= pushes; i++) {
    const [sent, asked] = [receiver.times.length, proxy.asked.length];
    const { commit, doneAt } = await pushRelease(repository.copy, String(i));
    const areReady = (found: ReadonlyMap<string, KubernetesObject>) =>
      names.every((name) => isReady(found.get(name), commit));
    const readyAt = await deployments.until(`release ${i}`, areReady, patienceMs);
    const messageAt = await receiver.next(sent);
    await delay(quietMs);
    const heard = {
      messages: receiver.times.length - sent,
      ...{ afterReadyMs: messageAt - readyAt, afterPushMs: messageAt - doneAt },
      asked: proxy.asked.slice(asked),
    };
    all.push(heard);
    stage.say(
      `  ${count} deployments: message ${milliseconds(heard.afterReadyMs)} after Ready, ${heard.asked.length} requests`,
    );
  }
  await scene.server.stop();
  return all;
}

/** Records when messages arrive. */
async function startReceiver() {
  const times: number[] = [];
  const arrived = new Set<() => void>();
  const server = createServer((req, res) => {
    const at = now();
    void json(req).then(() => {
      times.push(at);
      res.writeHead(204).end();
      for (const listener of arrived) listener();
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    times: times as readonly number[],
    /** Resolves with the time of the first message after the first `since`. */
    async next(since: number): Promise<number> {
      const { promise, resolve, reject } = Promise.withResolvers<number>();
      const look = () => {
        const at = times[since];
        if (at !== undefined) resolve(at);
      };
      const late = setTimeout(() => reject(new Error(`No message in ${patienceMs / 1_000} s.`)), patienceMs);
      arrived.add(look);
      look();
      return promise.finally(() => {
        clearTimeout(late);
        arrived.delete(look);
      });
    },
    async stop() {
      server.close();
      server.closeAllConnections();
    },
  };
}
