/**
 * The verification of a release with the real `cosign`, an image and a chart in a real registry, and a certificate
 * authority of our own.
 */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { documentedBlocks } from "../support/documented-commands.ts";
import { documentedCommands, type ForeignDesk, useForeignDesk } from "../support/foreign-desk.ts";
import { logInto, pushImage } from "../support/foreign-registry.ts";
import { useGitea } from "../support/world.ts";

const source = "https://github.com/example/towline";
const issuer = "https://token.actions.githubusercontent.com";

/**
 * GitHub's identity and the public logs are not available here. A certificate of our own authority stands in, with the
 * name and the issuer of a release's; this adds three options to the documented command and removes none.
 */
const ownTrust = "--trusted-root root.json --insecure-ignore-tlog --insecure-ignore-sct";

test("the documented command verifies what a release signs, and rejects everything else", async () => {
  const [desk, gitea] = await Promise.all([useForeignDesk(["cosign"], { COSIGN_PASSWORD: "" }), useGitea()]);
  await logInto(desk.dir, gitea);
  await makeTrust(desk);
  const [image, chart] = [await pushImage(gitea, "towline"), await pushImage(gitea, "charts")];
  // As in the release workflow, except for the identity.
  const own = "--key own.key --certificate own.pem --signing-config signing.json --trusted-root root.json";
  await desk.type(`cosign sign --yes --recursive ${image} ${own}`);
  await desk.type(`cosign sign --yes ${chart} ${own}`);

  const [verify, verifyOrigin, inSentence, ...others] = documentedCommands("cosign");
  expect([inSentence, others]).toEqual(["cosign verify", []]);
  const page = documentedBlocks().find(({ file, text }) => file === "docs/image.md" && text.startsWith("cosign"));
  expect(page?.text.replaceAll(/\\\n\s*/g, "")).toContain(verify);
  const typed = (of: string, by = source, more = ownTrust, command = verify) =>
    desk.type(`IMAGE=${of} SOURCE=${by}\n${command} ${more}`);

  const [said] = JSON.parse(await typed(image)) as { critical: { image: Record<string, string> } }[];
  expect(said?.critical.image["docker-manifest-digest"]).toBe(image.split("@")[1]);
  await expect(typed(chart)).resolves.toContain("docker-manifest-digest");

  // In the release workflow, GitHub's own action creates the attestation; it stores it in this form beside the image.
  await expect(typed(image, source, ownTrust, verifyOrigin)).rejects.toThrow("none of the attestations matched");
  const predicate = {
    buildDefinition: { buildType: "https://actions.github.io/buildtypes/workflow/v1" },
    runDetails: {},
  };
  await writeFile(join(desk.dir, "predicate.json"), JSON.stringify(predicate));
  await desk.type(`cosign attest --yes --type slsaprovenance1 --predicate predicate.json ${image} ${own}`);
  const [{ payload = "" } = {}] = (await typed(image, source, ownTrust, verifyOrigin))
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line) as { payload?: string });
  expect(JSON.parse(Buffer.from(payload, "base64").toString())).toMatchObject({
    predicateType: "https://slsa.dev/provenance/v1",
    predicate,
    subject: [{ digest: { sha256: image.split(":").at(-1) } }],
  });
  await expect(typed(image, "https://github.com/somebody/towline", ownTrust, verifyOrigin)).rejects.toThrow();

  await expect(typed(image, "https://github.com/somebody/towline")).rejects.toThrow("no matching CertificateIdentity");
  await expect(
    typed(image, source, `${ownTrust} --certificate-oidc-issuer https://issuer.example.com`),
  ).rejects.toThrow("no matching CertificateIdentity");
  await expect(typed(await pushImage(gitea, "unsigned"))).rejects.toThrow(/no signatures found/);
  // As documented, with the transparency log: fails only for lack of the log, which is not available here.
  const withLog = "--trusted-root root.json --insecure-ignore-sct";
  await expect(typed(image, source, withLog)).rejects.toThrow("not enough verified log entries");
  await expect(typed(image, source, "")).rejects.toThrow(/trusted root from TUF|TUF remote mirror/);
});

/** Creates an authority, a certificate with the claims of a GitHub workflow, and cosign's configuration for both. */
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
