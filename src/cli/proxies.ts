/**
 * Applies the proxy variables that git and kluctl use to the process's own `fetch` calls: APIs of git hosts, identity providers.
 * Not to the Kubernetes API server, which has `proxy-url` in its kubeconfig, and not to Redis.
 */
import http from "node:http";

const names = ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"];
const exceptions = ["no_proxy", "NO_PROXY"];

/** Sets the proxies for the whole process. No effect before Node 24.14. */
export function useProxies(env: Readonly<Record<string, string | undefined>>): void {
  const proxies = names.flatMap((name) => {
    const proxy = toProxy(env[name] ?? "");
    return proxy === undefined ? [] : [[name, proxy] as const];
  });
  if (proxies.length === 0) return;
  const except = exceptions.flatMap((name) => (env[name] ? [[name, env[name]] as const] : []));
  http.setGlobalProxyFromEnv?.(Object.fromEntries([...proxies, ...except]));
}

/** Like curl and git: without a scheme it is an HTTP proxy. `undefined` for kinds of proxies that Node does not support. */
export function toProxy(value: string): string | undefined {
  const url = /^[a-z][a-z0-9+.-]*:\/\//i.test(value) ? value : `http://${value}`;
  return value !== "" && /^https?:/i.test(url) && URL.canParse(url) ? url : undefined;
}
