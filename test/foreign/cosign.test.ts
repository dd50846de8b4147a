/** How a release is verified, with the real `cosign`, an image and a chart in a real registry, and a trust of our own. */
import { createHash } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { documentedBlocks } from "../support/documented-commands.ts";
import { documentedCommands, type ForeignDesk, useForeignDesk } from "../support/foreign-desk.ts";
import { type TestForge, useGitea } from "../support/world.ts";

const source = "https://github.com/example/towline";
const issuer = "https://token.actions.githubusercontent.com";

/**
 * GitHub's identity and the public logs are not to be had. A certificate of our own authority stands in, with the name and the
 * issuer that a release has; so three options are added to the documented command, and nothing is taken away.
 */
const ownTrust = "--trusted-root root.json --insecure-ignore-tlog --insecure-ignore-sct";

test("what a release signs is verified by the documented command, and nothing else is", async () => {
  const [desk, gitea] = await Promise.all([useForeignDesk(["cosign"], { COSIGN_PASSWORD: "" }), useGitea()]);
  await logIn(desk, gitea);
  await makeTrust(desk);
  const [image, chart] = [await pushManifest(gitea, "towline"), await pushManifest(gitea, "charts")];
  // As the workflow of a release does, but for whose identity it is.
  const own = "--key own.key --certificate own.pem --signing-config signing.json --trusted-root root.json";
  await desk.type(`cosign sign --yes --recursive ${image} ${own}`);
  await desk.type(`cosign sign --yes ${chart} ${own}`);

  const [verify, inSentence, ...others] = documentedCommands("cosign");
  expect([inSentence, others]).toEqual(["cosign verify", []]);
  const page = documentedBlocks().find(({ file, text }) => file === "docs/image.md" && text.startsWith("cosign"));
  expect(page?.text.replaceAll(/\\\n\s*/g, "")).toContain(verify);
  const typed = (of: string, by = source, more = ownTrust) => desk.type(`IMAGE=${of} SOURCE=${by}\n${verify} ${more}`);

  const [said] = JSON.parse(await typed(image)) as { critical: { image: Record<string, string> } }[];
  expect(said?.critical.image["docker-manifest-digest"]).toBe(image.split("@")[1]);
  await expect(typed(chart)).resolves.toContain("docker-manifest-digest");

  await expect(typed(image, "https://github.com/somebody/towline")).rejects.toThrow("no matching CertificateIdentity");
  await expect(
    typed(image, source, `${ownTrust} --certificate-oidc-issuer https://issuer.example.com`),
  ).rejects.toThrow("no matching CertificateIdentity");
  await expect(typed(await pushManifest(gitea, "unsigned"))).rejects.toThrow(/no signatures found/);
  // With the logs, and as it stands in the page: it lacks nothing but what cannot be had here.
  const withLog = "--trusted-root root.json --insecure-ignore-sct";
  await expect(typed(image, source, withLog)).rejects.toThrow("not enough verified log entries");
  await expect(typed(image, source, "")).rejects.toThrow(/trusted root from TUF|TUF remote mirror/);
});

async function logIn(desk: ForeignDesk, { login }: TestForge): Promise<void> {
  const auth = Buffer.from(`${login.user}:${login.token}`).toString("base64");
  await mkdir(join(desk.dir, ".docker"));
  const config = { auths: { [new URL(login.url).host]: { auth } } };
  await writeFile(join(desk.dir, ".docker/config.json"), JSON.stringify(config));
}

/** An authority, a certificate of it that says what one of GitHub's workflows would, and what cosign has to know of both. */
async function makeTrust(desk: ForeignDesk): Promise<void> {
  const configuration = `
[req]
distinguished_name = name
prompt = no
[name]
CN = authority
[authority]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign
[release]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = codeSigning
subjectAltName = critical,URI:${source}/.github/workflows/release.yml@refs/tags/v1.2.3
1.3.6.1.4.1.57264.1.8 = ASN1:UTF8String:${issuer}
`;
  await writeFile(join(desk.dir, "openssl.cnf"), configuration);
  await desk.type(`
new="-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -config openssl.cnf"
openssl req -x509 $new -keyout authority.key -out authority.pem -days 2 -extensions authority
openssl req $new -keyout plain.key -out request.pem
openssl x509 -req -in request.pem -CA authority.pem -CAkey authority.key -CAcreateserial -days 2 \\
  -extfile openssl.cnf -extensions release -out own.pem
cosign import-key-pair --key plain.key --output-key-prefix own
cosign trusted-root create --fulcio url=https://fulcio.example.com,certificate-chain=authority.pem --out root.json
cosign signing-config create --out signing.json`);
}

/** What of an image is signed is its manifest. Returns the reference by digest. */
async function pushManifest({ login, organization }: TestForge, name: string): Promise<string> {
  const at = `${login.url}/v2/${organization}/${name}`;
  const authorization = `Basic ${Buffer.from(`${login.user}:${login.token}`).toString("base64")}`;
  const digestOf = (text: string) => `sha256:${createHash("sha256").update(text).digest("hex")}`;
  const send = async (method: string, url: string, body: string, type: string) => {
    const answer = await fetch(url, { method, body, headers: { authorization, "content-type": type } });
    if (!answer.ok) throw new Error(`the registry answered ${answer.status}: ${await answer.text()}`);
  };
  const config = JSON.stringify({ architecture: "amd64", os: "linux", config: { Labels: { name } } });
  const digest = digestOf(config);
  await send("POST", `${at}/blobs/uploads/?digest=${digest}`, config, "application/octet-stream");
  const oci = "application/vnd.oci.image";
  const manifest = JSON.stringify({
    schemaVersion: 2,
    mediaType: `${oci}.manifest.v1+json`,
    config: { mediaType: `${oci}.config.v1+json`, digest, size: config.length },
    layers: [],
  });
  await send("PUT", `${at}/manifests/v1.2.3`, manifest, `${oci}.manifest.v1+json`);
  return `${new URL(login.url).host}/${organization}/${name}@${digestOf(manifest)}`;
}
