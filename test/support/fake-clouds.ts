/**
 * The key services of AWS, Azure and Google, and a Vault: each returns the data key to a client with the right login.
 * All of them are behind one proxy under their real names, so that the real libraries talk to them.
 */
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createSecureServer, type Http2ServerRequest, type Http2ServerResponse } from "node:http2";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { createCertificateAuthority } from "../../dev/parts/certificates.ts";
import { type MasterKeys, testDataKey } from "./sops.ts";

export const cloudKey = testDataKey("cloud");
const created_at = "2026-01-01T00:00:00Z";
const wrapped = Buffer.from("wrapped-1").toString("base64"); // the same in every variant of base64

/** SOPS's identifiers of the keys that the fakes hold; `port` is that of the Vault. */
export const cloudMasterKeys = {
  aws: { kms: [{ arn: "arn:aws:kms:eu-central-1:111122223333:key/shop", created_at, enc: wrapped }] },
  azure: {
    azure_kv: [{ vault_url: "https://shop.vault.azure.net", name: "shop", version: "1", created_at, enc: wrapped }],
  },
  google: {
    gcp_kms: [{ resource_id: "projects/p/locations/global/keyRings/r/cryptoKeys/shop", created_at, enc: wrapped }],
  },
  vault: (address: string): MasterKeys => ({
    hc_vault: [
      { vault_address: address, engine_path: "transit", key_name: "shop", created_at, enc: "vault:v1:wrapped" },
    ],
  }),
} as const;

export interface FakeClouds {
  readonly vaultAddress: string;
  /** For the server's environment. */
  readonly env: Readonly<Record<string, string>>;
  /** Accepted logins: the service and the credential. */
  readonly logins: Set<string>;
}

const hosts = [
  "kms.eu-central-1.amazonaws.com",
  "sts.eu-central-1.amazonaws.com",
  "sts.amazonaws.com",
  "login.microsoftonline.com",
  "shop.vault.azure.net",
  "cloudkms.googleapis.com",
];

type Incoming = IncomingMessage | Http2ServerRequest;
type Outgoing = ServerResponse | Http2ServerResponse;

export async function useFakeClouds(dir: string): Promise<FakeClouds> {
  const logins = new Set<string>();
  const authority = createCertificateAuthority("fake clouds");
  const { cert, key } = authority.issueServer("clouds", hosts);
  const clouds = createSecureServer({ cert, key, allowHTTP1: true }, (req, res) => void answer(req, res, logins));
  const proxy = createServer((req, res) => void answerVault(req, res, logins));
  proxy.on("connect", (_req, socket) => {
    socket.write("HTTP/1.1 200 OK\r\n\r\n");
    clouds.emit("connection", socket);
  });
  proxy.listen(0, "127.0.0.1");
  await once(proxy, "listening");
  onTestFinished(() => {
    proxy.close();
    proxy.closeAllConnections();
  });
  const url = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  const ca = join(dir, "clouds-ca.pem");
  await writeFile(ca, authority.cert);
  return { vaultAddress: url, env: { HTTPS_PROXY: url, SSL_CERT_FILE: ca }, logins };
}

async function answerVault(req: IncomingMessage, res: ServerResponse, logins: Set<string>): Promise<void> {
  await req.toArray();
  logins.add(`vault ${String(req.headers["x-vault-token"])}`);
  const plaintext = cloudKey.toString("base64");
  if (req.url === "/v1/transit/decrypt/shop") res.end(JSON.stringify({ data: { plaintext } }));
  else res.writeHead(404).end("{}");
}

async function answer(req: Incoming, res: Outgoing, logins: Set<string>): Promise<void> {
  const body = Buffer.concat((await req.toArray()) as Buffer[]).toString();
  const host = String(req.headers[":authority"] ?? req.headers.host).replace(/:443$/, "");
  const send = (content: string, type = "application/json") => {
    res.setHeader("content-type", type);
    res.end(content);
  };
  const sendJson = (content: object) => send(JSON.stringify(content));
  const form = new URLSearchParams(body);
  const authorization = String(req.headers.authorization);

  if (host.startsWith("sts.")) {
    logins.add(`sts ${form.get("RoleArn")} ${form.get("RoleSessionName")} ${form.get("WebIdentityToken")}`);
    send(assumedRole, "text/xml");
  } else if (host.startsWith("kms.")) {
    const [, login] = /Credential=([^/]+)/.exec(authorization) ?? [];
    logins.add(`aws ${login} ${String(req.headers["x-amz-security-token"])}`);
    sendJson({ KeyId: "shop", Plaintext: cloudKey.toString("base64"), EncryptionAlgorithm: "SYMMETRIC_DEFAULT" });
  } else if (host === "login.microsoftonline.com") {
    const tenant = "https://login.microsoftonline.com/a-tenant";
    const endpoints = {
      authorization_endpoint: `${tenant}/authorize`,
      token_endpoint: `${tenant}/token`,
      issuer: tenant,
    };
    if (req.method === "POST") logins.add(`azure ${form.get("client_id")} ${form.get("client_secret")}`);
    if (req.method === "POST") sendJson({ access_token: "azure-token", expires_in: 3600, token_type: "Bearer" });
    else if (req.url?.includes("/discovery/")) {
      const metadata = [{ preferred_network: host, preferred_cache: host, aliases: [host] }];
      sendJson({ tenant_discovery_endpoint: `${tenant}/v2.0/.well-known/openid-configuration`, metadata });
    } else sendJson(endpoints);
  } else if (host === "shop.vault.azure.net") {
    if (authorization === "Bearer azure-token") sendJson({ kid: "shop", value: cloudKey.toString("base64url") });
    else {
      const challenge = `Bearer authorization="https://login.microsoftonline.com/a-tenant", resource="https://vault.azure.net"`;
      res.statusCode = 401;
      res.setHeader("www-authenticate", challenge);
      res.end();
    }
  } else if (host === "cloudkms.googleapis.com" && "stream" in res) {
    const [, claims = ""] = authorization.split("."); // signed with the account's own key, so no token is requested
    logins.add(`google ${(JSON.parse(Buffer.from(claims, "base64url").toString()) as { iss: string }).iss}`);
    answerGrpc(res as Http2ServerResponse, Buffer.concat([Buffer.from([0x0a, cloudKey.length]), cloudKey])); // field 1
  } else {
    res.statusCode = 404;
    res.end();
  }
}

function answerGrpc(res: Http2ServerResponse, message: Buffer): void {
  const length = Buffer.alloc(5);
  length.writeUInt32BE(message.length, 1);
  res.setHeader("content-type", "application/grpc");
  res.addTrailers({ "grpc-status": "0" });
  res.end(Buffer.concat([length, message]));
}

const assumedRole = `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>ASIA-OF-THE-ROLE</AccessKeyId>
<SecretAccessKey>secret-of-the-role</SecretAccessKey><SessionToken>session-of-the-role</SessionToken>
<Expiration>2100-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleWithWebIdentityResult>
</AssumeRoleWithWebIdentityResponse>`;
