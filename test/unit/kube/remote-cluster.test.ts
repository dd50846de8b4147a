import { expect, test } from "vitest";
import { parse, stringify } from "yaml";
import { toRemoteCluster } from "../../../src/kube/remote-cluster.ts";

const server = "https://10.0.0.1:6443/k8s/clusters/c-1";
const ca = { "certificate-authority-data": "Y2E=" };

function kubeconfig(user: object, cluster: object = { server, ...ca }, more: object = {}): string {
  return stringify({
    apiVersion: "v1",
    kind: "Config",
    "current-context": "prod",
    contexts: [
      { name: "other", context: { cluster: "o", user: "o" } },
      { name: "prod", context: { cluster: "c", user: "u", namespace: "somewhere" } },
    ],
    clusters: [
      { name: "o", cluster: { server: "https://other" } },
      { name: "c", cluster },
    ],
    users: [
      { name: "o", user: { token: "of-other" } },
      { name: "u", user },
    ],
    ...more,
  });
}

const lookup = (host: string) =>
  Promise.resolve([{ address: host === "metadata.example.com" ? "169.254.169.254" : "10.0.0.1" }]);

async function partsOf(text: string, options: { impersonate?: string; allowUnsafe?: boolean } = {}) {
  const remote = await toRemoteCluster(text, { allowUnsafe: false, lookup, ...options });
  const { clusters, users, contexts, ...rest } = parse(remote.kubeconfig) as {
    clusters: { name: string; cluster: object }[];
    users: { name: string; user: object }[];
    contexts: unknown;
  };
  expect({ contexts, ...rest }).toEqual({
    apiVersion: "v1",
    kind: "Config",
    "current-context": "default",
    contexts: [{ name: "default", context: { cluster: "default", user: "default" } }],
  });
  expect([clusters, users].map((list) => list.map(({ name }) => name))).toEqual([["default"], ["default"]]);
  return { cluster: clusters[0]?.cluster, user: users[0]?.user, fingerprint: remote.fingerprint };
}

test("kluctl gets only the current context, under the name that it has for every cluster", async () => {
  expect(await partsOf(kubeconfig({ token: "t" }))).toMatchObject({ cluster: { server, ...ca }, user: { token: "t" } });
  const certificate = { "client-certificate-data": "Y2VydA==", "client-key-data": "a2V5" };
  const address = { server, "tls-server-name": "api", "proxy-url": "http://proxy:1", "insecure-skip-tls-verify": true };
  expect(await partsOf(kubeconfig(certificate, address))).toMatchObject({ cluster: address, user: certificate });
});

test("the deployment's service account replaces the user that the kubeconfig impersonates", async () => {
  const login = { token: "t", as: "ada", "as-groups": ["admins"] };
  expect((await partsOf(kubeconfig(login))).user).toEqual(login);
  const impersonate = "system:serviceaccount:shop:deployer";
  expect((await partsOf(kubeconfig(login), { impersonate })).user).toEqual({ token: "t", as: impersonate });
  await expect(partsOf(kubeconfig(login), { impersonate: " " })).rejects.toThrow("has no name");
});

test.for([
  [kubeconfig({ exec: { command: "aws" } }), "its exec would run on the server to log in: use a token or a client"],
  [kubeconfig({ "auth-provider": { name: "gcp" } }), "its auth-provider would run on the server to log in"],
  [
    kubeconfig({ tokenFile: "/var/run/secrets/token" }),
    "its tokenFile references a file on the server: use token instead",
  ],
  [
    kubeconfig({ "client-key": "/k", "client-certificate-data": "Yw==" }),
    "its client-key references a file on the server",
  ],
  [kubeconfig({}, { server, "certificate-authority": "/ca" }), "use certificate-authority-data instead"],
  [kubeconfig({}, {}), "its current context has no cluster with a server"],
  [kubeconfig({}, undefined, { "current-context": "" }), "it has no current-context"],
  [kubeconfig({}, undefined, { "current-context": "gone" }), "its current-context is not one of its contexts"],
  [kubeconfig({}, undefined, { users: [] }), "the user of its current context is not one of its users"],
  ["hidden: [", "it is not YAML"],
  ["hidden", "it is not a kubeconfig"],
  ["", "it is not a kubeconfig"],
] as const)("%s is refused: %s", async ([text, why]) => {
  const { message } = await toRemoteCluster(text, { allowUnsafe: false, lookup }).then(
    () => new Error("it is taken"),
    (error: Error) => error,
  );
  expect(message).toContain(why);
  expect(message).not.toContain("hidden");
});

test.for([
  [
    { server: "https://169.254.169.254" },
    "its server is rejected: 169.254.169.254 is a link-local or metadata address",
  ],
  [{ server: "https://[64:ff9b::a9fe:a9fe]:6443/k8s" }, "its server is rejected"],
  [{ server: "168.63.129.16:80" }, "its server is rejected"],
  [{ server: "https://metadata.example.com" }, "its server is rejected: metadata.example.com"],
  [{ server, "proxy-url": "socks5://169.254.169.254:1080" }, "its proxy-url is rejected"],
  [{ server: "https://[x" }, "its server is not a URL"],
] as const)("%o is refused, whatever is allowed", async ([cluster, why]) => {
  for (const allowUnsafe of [false, true])
    await expect(toRemoteCluster(kubeconfig({}, cluster), { allowUnsafe, lookup })).rejects.toThrow(why);
});

test("exec plugins and files are used only if they are allowed", async () => {
  const login = { exec: { command: "aws" }, tokenFile: "/token" };
  const address = { server, "certificate-authority": "/ca" };
  const parts = await partsOf(kubeconfig(login, address), { allowUnsafe: true });
  expect(parts).toMatchObject({ cluster: address, user: login });
});

test("the fingerprint depends on the server, not on the login", async () => {
  const texts = [
    kubeconfig({ token: "t" }),
    kubeconfig({ token: "another" }),
    kubeconfig({ token: "t" }, { server: `${server}/`, ...ca }),
    kubeconfig({ token: "t" }, { server, "certificate-authority-data": "b3RoZXI=" }),
  ];
  const fingerprints = (await Promise.all(texts.map((text) => partsOf(text)))).map(({ fingerprint }) => fingerprint);
  expect(fingerprints[1]).toBe(fingerprints[0]);
  expect(new Set(fingerprints).size).toBe(3);
});
