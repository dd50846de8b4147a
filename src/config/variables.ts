/** Which TOWLINE_* variables are ours. Pure. */

const prefix = "TOWLINE_";

// The programs of the local world (dev/), which a developer may have set in the shell that starts a server as well.
const developers =
  /^TOWLINE_(?:ACTIONLINT|CACHE|ETCD|GITEA|HELM4?|KWOK|KUBECTL|PROMTOOL|KUBE_(?:APISERVER|CONTROLLER_MANAGER|SCHEDULER)|SSH)$/;

// In a pod, Kubernetes sets these for every Service of the namespace. One that is called "towline" or "towline-…"
// makes TOWLINE_PORT, TOWLINE_WEBHOOKS_PORT=tcp://10.0.0.1:8080 and so on, which nobody meant as a configuration.
const serviceLink = /_SERVICE_(?:HOST|PORT)(?:_[A-Z0-9_]+)?$|_PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?$/;
const serviceAddress = /^(?:tcp|udp|sctp):\/\//;

/** The variables that mean something to us, known or not. An empty one counts as not set, as compose files leave them. */
export function ownVariables(env: Readonly<Record<string, string | undefined>>): ReadonlyMap<string, string> {
  const own = new Map<string, string>();
  for (const [name, value] of Object.entries(env)) {
    if (!name.startsWith(prefix) || value === undefined || value.trim() === "") continue;
    if (developers.test(name) || serviceLink.test(name) || serviceAddress.test(value)) continue;
    own.set(name, value);
  }
  return own;
}
