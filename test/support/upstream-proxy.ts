/**
 * An upstream proxy that a server has to use: connects every request to one port of this machine, whatever its host.
 */
import { once } from "node:events";
import http from "node:http";
import net, { type AddressInfo } from "node:net";
import { onTestFinished } from "vitest";

export async function useUpstream(port: number) {
  const asked: string[] = [];
  const server = http.createServer((req, res) => {
    asked.push(`${req.method} ${req.url} ${req.headers["proxy-authorization"] ?? ""}`);
    const url = new URL(req.url ?? "");
    req.pipe(
      http.request(
        { port, method: req.method, path: url.pathname, headers: { ...req.headers, host: url.host } },
        (from) => {
          res.writeHead(from.statusCode ?? 0, from.headers);
          from.pipe(res);
        },
      ),
    );
  });
  server.on("connect", (req: http.IncomingMessage, socket: net.Socket) => {
    asked.push(`CONNECT ${req.url} ${req.headers["proxy-authorization"] ?? ""}`);
    const out = net.connect(port, "127.0.0.1", () => socket.write("HTTP/1.1 200 OK\r\n\r\n"));
    out.pipe(socket).pipe(out);
    for (const one of [out, socket]) one.on("error", () => void [out.destroy(), socket.destroy()]);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => server.close().closeAllConnections());
  const url = `http://user:pass@127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { env: { HTTPS_PROXY: url, HTTP_PROXY: url }, asked };
}
