/** Finds out by trying whether this process can reach the network: if it can, so can the kluctl of a preview. */
import { Resolver } from "node:dns/promises";
import { connect } from "node:net";
import type { NetworkInterfaceInfo } from "node:os";

export interface Surroundings {
  readonly env: NodeJS.ProcessEnv;
  readonly interfaces: NodeJS.Dict<NetworkInterfaceInfo[]>;
  /** Timeout of each attempt. */
  readonly patienceMs: number;
}

/** A single packet may get lost. */
const tries = 3;

/** Where clouds serve a machine's credentials. Network policies often omit it. */
const metadata = { host: "169.254.169.254", port: 80 };

/**
 * In a pod: whether neither the API server, whose address every pod knows, nor the cloud's metadata service nor DNS
 * responds. Elsewhere: whether there is no network at all, because the relevant addresses are unknown.
 */
export async function isCutOff({ env, interfaces, patienceMs }: Surroundings): Promise<boolean> {
  const addresses = Object.values(interfaces).flatMap((found) => found ?? []);
  if (addresses.every(({ internal }) => internal)) return true;
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port = "443" } = env;
  if (host === undefined) return false;
  const answers = [answersAt({ host, port: Number(port) }, patienceMs), answersAt(metadata, patienceMs)];
  return !(await Promise.all([...answers, answersNames(patienceMs)])).includes(true);
}

async function answersAt(address: { readonly host: string; readonly port: number }, ms: number): Promise<boolean> {
  for (let i = 0; i < tries; i++) if (await answersOnce(address, ms)) return true;
  return false;
}

/** A rejected connection counts as a response: packets get there and back. */
async function answersOnce(address: { readonly host: string; readonly port: number }, ms: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socket = connect(address);
  socket.setTimeout(ms, () => resolve(false));
  socket.once("connect", () => resolve(true));
  socket.once("error", ({ code = "" }: NodeJS.ErrnoException) => {
    resolve(!["ENETUNREACH", "EHOSTUNREACH", "EACCES", "EPERM", "ETIMEDOUT"].includes(code));
  });
  const answered = await promise;
  socket.destroy();
  return answered;
}

/** Data can leak through DNS queries as well as through connections. */
async function answersNames(ms: number): Promise<boolean> {
  const resolver = new Resolver({ timeout: ms, tries: 2 }); // the second attempt waits twice as long
  if (resolver.getServers().every((server) => server.startsWith("127."))) return false;
  return resolver.resolve4("kubernetes.default.svc.cluster.local").then(
    () => true,
    ({ code }: NodeJS.ErrnoException) => code !== "ETIMEOUT",
  );
}
