import { expect, test } from "vitest";
import { examineFluxPreviews, type FluxPreviewsSetting } from "../../../src/doctor/flux-previews.ts";

const works: FluxPreviewsSetting = {
  ...{ previewsEnabled: true, hasRunner: false, hasLogin: true, program: "towline-flux" },
  findProgram: (program) => Promise.resolve(`/usr/bin/${program}`),
};

test.each<[string, Partial<FluxPreviewsSetting>, RegExp]>([
  ["previews are disabled", { previewsEnabled: false }, /previews are disabled/],
  ["no git host can be written to", { hasLogin: false }, /log in to no git host/],
  ["a preview runner renders", { hasRunner: true }, /only kluctl's projects/],
  ["the program is missing", { findProgram: () => Promise.resolve(undefined) }, /no program towline-flux/],
])("doctor says that flux.previews has no effect: %s", async (_, missing, words) => {
  const [finding] = await examineFluxPreviews({ ...works, ...missing });
  expect(finding).toMatchObject({ level: "warning", message: expect.stringMatching(words) as string });
});

test("doctor says what renders Kustomizations", async () => {
  expect(await examineFluxPreviews(works)).toMatchObject([
    { level: "ok", message: "rendered by /usr/bin/towline-flux" },
  ]);
});
