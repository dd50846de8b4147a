/** Servers in place of the targets of notifications, and what a failed attempt to notify them is. */
import { once } from "node:events";
import { createServer, type RequestListener, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { inspect } from "node:util";
import { expect, onTestFinished } from "vitest";
import { NotifyError } from "../../src/errors.ts";

/** Returns the origin of a server that ends with the test. */
export async function useTarget(listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return originOf(server.address());
}

/** An origin at which no server listens. */
export async function unreachableTarget(): Promise<string> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const origin = originOf(server.address());
  server.close();
  await once(server, "close");
  return origin;
}

function originOf(address: AddressInfo | string | null): string {
  return `http://127.0.0.1:${(address as AddressInfo).port}`;
}

/** Responds without an end, as long as the client reads. */
export function flood(res: ServerResponse): void {
  const more = (): void => {
    while (!res.destroyed && res.write("canary".repeat(2_000)));
  };
  res.on("drain", more);
  more();
}

/** Returns why it was not sent, after checking that this contains no secret. */
export async function failureOf(sending: Promise<unknown>, secrets: RegExp): Promise<NotifyError> {
  const error = await sending.then(
    () => new Error("It was sent."),
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(NotifyError);
  expect(inspect(error, { depth: Infinity, showHidden: true })).not.toMatch(secrets);
  return error as NotifyError;
}
