/** Selects the TOWLINE_* variables that configure Towline. Pure. */

const prefix = "TOWLINE_";

// Programs of the development environment (dev/), which may be set in a developer's shell.
const developers =
  /^TOWLINE_(?:ACTIONLINT|CACHE|ETCD|GITEA|HELM4?|KWOK|KUBECTL|PROMTOOL|KUBE_(?:APISERVER|CONTROLLER_MANAGER|SCHEDULER)|SSH)$/;

// In a pod, Kubernetes sets these for every Service of the namespace. A Service named "towline" or "towline-…" results in
// TOWLINE_PORT, TOWLINE_WEBHOOKS_PORT=tcp://10.0.0.1:8080 and so on, which are not configuration.
const serviceLink = /_SERVICE_(?:HOST|PORT)(?:_[A-Z0-9_]+)?$|_PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?$/;
const serviceAddress = /^(?:tcp|udp|sctp):\/\//;

/** Variables of Towline, with known and unknown names. Empty variables count as not set, as in compose files. */
export function ownVariables(env: Readonly<Record<string, string | undefined>>): ReadonlyMap<string, string> {
  const own = new Map<string, string>();
  for (const [name, value] of Object.entries(env)) {
    if (!name.startsWith(prefix) || value === undefined || value.trim() === "") continue;
    if (developers.test(name) || serviceLink.test(name) || serviceAddress.test(value)) continue;
    own.set(name, value);
  }
  return own;
}
