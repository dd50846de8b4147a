/** The webhook routes in a real express application on a port of their own. */
import { once } from "node:events";
import http from "node:http";
import type { AddressInfo } from "node:net";
import type { Logger } from "pino";
import { onTestFinished } from "vitest";
import { createWebhookApp, type WebhookRoutesDeps } from "../../routes/webhooks.ts";
import { createWebhookSource } from "../../src/forge/create-webhook-source.ts";
import type { WebhookSource } from "../../src/forge/webhook-source.ts";
import type { Receipt } from "../../src/model/receipt.ts";
import type { GitEvent } from "../../src/model.ts";
import { type Delivery, giteaSecret, githubSecret, gitlabSigningKey, gitlabToken } from "./deliveries.ts";
import { silentLog } from "./fakes.ts";

export interface Answer {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: Partial<Receipt> & { readonly error?: string; readonly hint?: string };
}

export interface WebhookServer {
  readonly port: number;
  /** The accepted events. */
  readonly events: GitEvent[];
  readonly observed: { forge: string; event: string; status: number }[];
  post(path: string, rawHeaders: readonly string[], body: string | Buffer): Promise<Answer>;
  deliver(forge: string, delivery: Delivery): Promise<Answer>;
  request(options: http.RequestOptions, body?: string | Buffer): Promise<Answer>;
}

function forges(): Map<string, WebhookSource> {
  const allowUnsigned = false;
  const sources = [
    createWebhookSource({ id: "github", kind: "github", secrets: ["an-older-secret", githubSecret], allowUnsigned }),
    createWebhookSource({ id: "gitlab", kind: "gitlab", secrets: [gitlabToken, gitlabSigningKey], allowUnsigned }),
    createWebhookSource({ id: "gitea", kind: "gitea", secrets: [giteaSecret], allowUnsigned }),
  ];
  return new Map(sources.map((source) => [source.id, source]));
}

export async function useWebhooks(
  overrides: Partial<WebhookRoutesDeps> = {},
  log: Logger = silentLog,
): Promise<WebhookServer> {
  const events: GitEvent[] = [];
  const observed: WebhookServer["observed"] = [];
  const app = createWebhookApp({
    sources: forges(),
    accept(event) {
      events.push(event);
      return Promise.resolve({ delivery: event.delivery, matched: 0, queued: 0, ignored: [] });
    },
    maxBodyBytes: 1_000_000,
    log,
    observe: { delivery: (forge, event, status) => void observed.push({ forge, event, status }) },
    ...overrides,
  });
  const server = http.createServer(app).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const agent = new http.Agent({ keepAlive: true });
  onTestFinished(async () => {
    agent.destroy();
    server.closeAllConnections();
    server.close();
    await once(server, "close");
  });

  function request(options: http.RequestOptions, body: string | Buffer = ""): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const req = http.request({ host: "127.0.0.1", port, agent, method: "POST", ...options }, (res) => {
        const chunks: Buffer[] = [];
        res.on("data", (chunk: Buffer) => chunks.push(chunk));
        res.on("error", reject);
        res.on("end", () => {
          const text = Buffer.concat(chunks).toString("utf8");
          const json = /^application\/json/.test(res.headers["content-type"] ?? "");
          resolve({
            status: res.statusCode ?? 0,
            headers: res.headers,
            body: json && text !== "" ? JSON.parse(text) : { error: text },
          });
        });
      });
      req.on("error", reject);
      req.end(body);
    });
  }

  function post(path: string, rawHeaders: readonly string[], body: string | Buffer): Promise<Answer> {
    const omitted = new Set(["host", "content-length", "connection", "accept-encoding"]);
    const kept = rawHeaders.filter((_, i) => !omitted.has(rawHeaders[i - (i % 2)]?.toLowerCase() ?? ""));
    const own = ["Host", "localhost", "Content-Length", String(Buffer.byteLength(body))];
    return request({ path, headers: [...own, ...kept] }, body);
  }

  return {
    port,
    events,
    observed,
    post,
    deliver: (forge, { rawHeaders, body }) => post(`/webhooks/${forge}`, rawHeaders, body),
    request,
  };
}
