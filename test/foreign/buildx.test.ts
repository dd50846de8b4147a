/**
 * The documented way to list the contents of a release image, with the real `docker buildx`, which reads the registry
 * and needs no engine.
 */
import { expect, test } from "vitest";
import { documentedCommands, useForeignDesk } from "../support/foreign-desk.ts";
import { type ForeignRegistry, logInto, oci, useRepository } from "../support/foreign-registry.ts";
import { useGitea } from "../support/world.ts";

test("the documented command lists the contents of an image for each architecture", async () => {
  const [desk, gitea] = await Promise.all([useForeignDesk(["docker-buildx"]), useGitea()]);
  await logInto(desk.dir, gitea);
  await desk.program("docker", `[ "$1" = buildx ] && shift && exec ${desk.tools["docker-buildx"]} "$@"`);
  const repository = useRepository(gitea, "with-sbom");
  const pushed = await Promise.all(["amd64", "arm64"].map((architecture) => pushWithSbom(repository, architecture)));
  const index = await repository.manifest({ mediaType: `${oci}.index.v1+json`, manifests: pushed.flat() }, "v1.2.3");

  const commands = documentedCommands("docker").filter((command) => command.startsWith("docker buildx "));
  expect(commands).toHaveLength(1);
  const said = JSON.parse(await desk.type(`IMAGE=${repository.reference(index)}\n${commands[0]}`)) as object;

  const sbomOf = (architecture: string) => ({
    SPDX: expect.objectContaining({ name: `of ${architecture}` }) as unknown,
  });
  expect(said).toEqual({ "linux/amd64": sbomOf("amd64"), "linux/arm64": sbomOf("arm64") });
});

/** Pushes an SBOM in the form in which BuildKit attaches it: as the only layer of a manifest beside the image's. */
async function pushWithSbom(repository: ForeignRegistry, architecture: string): Promise<object[]> {
  const config = (of: object) => repository.blob(`${oci}.config.v1+json`, JSON.stringify(of));
  const platform = { architecture, os: "linux" };
  const manifest = { mediaType: `${oci}.manifest.v1+json` };
  const image = await repository.manifest({ ...manifest, config: await config(platform), layers: [] });
  const predicateType = "https://spdx.dev/Document";
  const statement = {
    _type: "https://in-toto.io/Statement/v0.1",
    predicateType,
    subject: [{ name: "image", digest: { sha256: image.digest.replace("sha256:", "") } }],
    predicate: { SPDXID: "SPDXRef-DOCUMENT", spdxVersion: "SPDX-2.3", name: `of ${architecture}`, packages: [] },
  };
  const layer = {
    ...(await repository.blob("application/vnd.in-toto+json", JSON.stringify(statement))),
    annotations: { "in-toto.io/predicate-type": predicateType },
  };
  const unknown = { architecture: "unknown", os: "unknown" };
  const attestation = await repository.manifest({ ...manifest, config: await config(unknown), layers: [layer] });
  const annotations = {
    "vnd.docker.reference.type": "attestation-manifest",
    "vnd.docker.reference.digest": image.digest,
  };
  return [
    { ...image, platform },
    { ...attestation, platform: unknown, annotations },
  ];
}
