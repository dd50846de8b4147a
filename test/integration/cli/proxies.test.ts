/** The git host's API is reachable only through a proxy, as in many companies. */
import { execFile } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { toProxy } from "../../../src/cli/proxies.ts";
import { useGithubHost } from "../../support/github-host.ts";
import { secret, url } from "../../support/hooks.ts";

const cli = join(import.meta.dirname, "../../../src/cli.ts");

/** A proxy that connects to this port, whatever address is requested. */
async function useProxy(port: number) {
  const asked: string[] = [];
  const server = createServer((_, res) => void res.writeHead(501).end());
  server.on("connect", (req, socket) => {
    asked.push(req.url ?? "");
    const there = connect(port, "127.0.0.1", () => {
      socket.write("HTTP/1.1 200 OK\r\n\r\n");
      socket.pipe(there).pipe(socket);
    });
    for (const end of [socket, there]) end.on("error", () => (socket.destroy(), there.destroy()));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  return { asked, address: `127.0.0.1:${(server.address() as AddressInfo).port}` };
}

test("requests to a git host's API use the same proxy as git, unless NO_PROXY lists the host", async () => {
  const host = await useGithubHost();
  host.logins.permissions = { repository_hooks: "write" };
  const proxy = await useProxy(Number(new URL(host.apiUrl).port));
  const apiUrl = host.apiUrl.replace(/127\.0\.0\.1:\d+/, "git.invalid");
  const ensure = (env: Record<string, string>) =>
    promisify(execFile)(
      process.execPath,
      [cli, "webhook", "ensure", host.repoName, "--url", url, "--forge", "github"],
      {
        env: {
          PATH: process.env["PATH"],
          TOWLINE_GITHUB_WEBHOOK_SECRET: secret,
          TOWLINE_GITHUB_API_URL: apiUrl,
          TOWLINE_GITHUB_TOKEN: host.logins.token,
          ...env,
        },
      },
    ).catch((error: { stdout: string; stderr: string }) => error);

  await ensure({ http_proxy: proxy.address });
  expect(proxy.asked).toContain("git.invalid:80");
  expect(host.repository.hooks).toHaveLength(1);

  proxy.asked.length = 0;
  const { stdout, stderr } = await ensure({ http_proxy: `http://${proxy.address}`, no_proxy: ".invalid" });
  expect(proxy.asked).toEqual([]);
  expect(stdout + stderr).toMatch(/git\.invalid/);
});

test.each([
  ["proxy.example.com:3128", "http://proxy.example.com:3128"],
  ["http://ann:secret@proxy:3128", "http://ann:secret@proxy:3128"],
  ["HTTPS://proxy", "HTTPS://proxy"],
  ["socks5://proxy:1080", undefined],
  ["http://", undefined],
  ["", undefined],
])("the proxy setting %j is read as %j", (value, proxy) => {
  expect(toProxy(value)).toBe(proxy);
});
