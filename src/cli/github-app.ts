/** Creates a GitHub App in the browser: a page on this machine posts the manifest, and GitHub redirects back to it. */
import { randomBytes, timingSafeEqual } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { finished } from "node:stream/promises";
import { fetchMadeApp, type MadeApp, manifestFormUrl, toManifest } from "../forge/github-manifest.ts";
import { createLogger } from "../log.ts";
import { withTimeout } from "../kit/deadline.ts";

interface AppWish {
  readonly apiUrl: string | undefined;
  readonly organization: string | undefined;
  readonly name: string;
  readonly homepage: string;
  readonly webhookUrl: string;
  /** 0: any free port. */
  readonly port: number;
  /** Called with the page's address once it is served. */
  readonly onPage: (url: string) => void;
  readonly signal: AbortSignal;
}

/** The page is served for an hour, which is how long GitHub's codes are valid. */
const patienceMs = 3_600_000;

/** Listens on the loopback interface only, until GitHub has answered. */
export async function makeGithubApp(wish: AppWish): Promise<MadeApp> {
  const { apiUrl, signal } = wish;
  // Knowing the page's address is enough to create the App; `state` proves that the answer belongs to this page.
  const [place, state] = [randomBytes(16).toString("hex"), randomBytes(16).toString("hex")];
  const log = createLogger({ level: "silent", format: "json" });
  const end = withTimeout(patienceMs, signal);
  const made = Promise.withResolvers<MadeApp>();
  made.promise.catch(() => undefined); // it may fail before it is awaited
  let isTaken = false;

  async function answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const { pathname, searchParams } = URL.parse(`http://loopback${req.url}`) ?? new URL("http://loopback");
    if (req.method !== "GET") return send(res, 405, "<p>Only GET is supported.</p>");
    if (pathname === `/${place}`) return send(res, 200, formPage(wish, state, redirectUrl()));
    const code = searchParams.get("code") ?? "";
    if (pathname !== `/${place}/made` || code === "") return send(res, 404, "<p>Not found.</p>");
    if (!isSame(searchParams.get("state") ?? "", state)) {
      return send(res, 400, "<p>Invalid state: this answer does not belong to this page. No App was created.</p>");
    }
    if (isTaken) return send(res, 409, "<p>The App was already created: see the terminal.</p>");
    isTaken = true;
    try {
      const app = await fetchMadeApp(apiUrl, code, log, end);
      const install = escape(`${app.html_url}/installations/new`);
      await send(
        res,
        200,
        `<p>The App is created. <a href="${install}">Install it</a>, and see the terminal for the next steps.</p>`,
      );
      made.resolve(app);
    } catch (error) {
      await send(res, 502, `<p>${escape((error as Error).message)}</p>`);
      made.reject(error);
    }
  }

  const server = createServer((req, res) => void answer(req, res));
  const redirectUrl = () => `http://127.0.0.1:${(server.address() as AddressInfo).port}/${place}/made`;
  const onEnd = () => {
    made.reject(
      signal.aborted ? (signal.reason as Error) : new Error("no App was created within an hour; run the command again"),
    );
  };
  end.addEventListener("abort", onEnd, { once: true });
  try {
    server.listen(wish.port, "127.0.0.1");
    await once(server, "listening", { signal: end });
    wish.onPage(redirectUrl().replace(/\/made$/, ""));
    return await made.promise;
  } finally {
    end.removeEventListener("abort", onEnd);
    server.close();
    server.closeAllConnections();
  }
}

function formPage({ apiUrl, organization, ...wish }: AppWish, state: string, redirectUrl: string): string {
  const manifest = JSON.stringify(toManifest({ ...wish, redirectUrl }));
  return `<p>GitHub asks for a name and creates an App for this Towline. The App may read and write pull requests and commit
statuses and read contents, and sends its webhook to ${escape(wish.webhookUrl)}.</p>
<form method="post" action="${escape(manifestFormUrl(apiUrl, organization, state))}">
<input type="hidden" name="manifest" value="${escape(manifest)}">
<button type="submit">Create the App on GitHub</button>
</form>`;
}

/** Resolves once the response is sent, because the server stops soon after. */
async function send(res: ServerResponse, status: number, body: string): Promise<void> {
  const page = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Towline: create a GitHub App</title></head>
<body><main><h1>Towline</h1>${body}</main></body></html>\n`;
  const headers = {
    "content-type": "text/html; charset=utf-8",
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; base-uri 'none'; frame-ancestors 'none'",
    connection: "close",
  };
  res.writeHead(status, headers).end(page);
  await finished(res).catch(() => undefined); // the browser may be closed; only GitHub's answer matters
}

const entities: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };

function escape(text: string): string {
  return text.replaceAll(/[&<>"]/g, (character) => entities[character] ?? character);
}

function isSame(given: string, expected: string): boolean {
  const [one, other] = [Buffer.from(given), Buffer.from(expected)];
  return one.length === other.length && timingSafeEqual(one, other);
}
