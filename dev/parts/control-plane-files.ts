import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createCertificateAuthority, createKeyPair, type Issued } from "./certificates.ts";

export interface ControlPlaneFiles {
  readonly ca: string;
  readonly serverCert: string;
  readonly serverKey: string;
  readonly serviceAccountPublicKey: string;
  readonly serviceAccountKey: string;
  /** Kubeconfig of an administrator. */
  readonly kubeconfig: string;
  readonly admin: Issued & { readonly ca: string };
  /** The same certificate and key as files. */
  readonly adminCert: string;
  readonly adminKey: string;
}

/** Writes the keys, certificates and the kubeconfig of a new control plane, readable only by the current user. */
export async function writeControlPlaneFiles(dir: string, server: string): Promise<ControlPlaneFiles> {
  await mkdir(dir, { recursive: true, mode: 0o700 });
  const write = async (name: string, text: string) => {
    const path = join(dir, name);
    await writeFile(path, text, { mode: 0o600 });
    return path;
  };
  const authority = createCertificateAuthority("towline-dev");
  const names = ["127.0.0.1", "localhost", "10.0.0.1", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
  const serving = authority.issueServer("kube-apiserver", names);
  const admin = {
    ...authority.issueClient({ commonName: "admin", organization: "system:masters" }),
    ca: authority.cert,
  };
  const serviceAccounts = createKeyPair();
  return {
    ca: await write("ca.crt", authority.cert),
    serverCert: await write("server.crt", serving.cert),
    serverKey: await write("server.key", serving.key),
    serviceAccountPublicKey: await write("service-account.pub", serviceAccounts.publicKey),
    serviceAccountKey: await write("service-account.key", serviceAccounts.privateKey),
    kubeconfig: await write("kubeconfig", JSON.stringify(toKubeconfig(server, admin), undefined, 2)),
    admin,
    adminCert: await write("admin.crt", admin.cert),
    adminKey: await write("admin.key", admin.key),
  };
}

/** JSON is valid YAML, so every client can read it. */
function toKubeconfig(server: string, { ca, cert, key }: Issued & { ca: string }): object {
  const base64 = (text: string) => Buffer.from(text).toString("base64");
  const name = "towline-dev";
  return {
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name, cluster: { server, "certificate-authority-data": base64(ca) } }],
    users: [{ name, user: { "client-certificate-data": base64(cert), "client-key-data": base64(key) } }],
    contexts: [{ name, context: { cluster: name, user: name, namespace: "default" } }],
    "current-context": name,
  };
}
