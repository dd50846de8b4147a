/** Checks whether pull requests can show what they change in what Flux applies. */
import { type Finding, ok, warning } from "./finding.ts";

export interface FluxPreviewsSetting {
  readonly previewsEnabled: boolean;
  readonly hasRunner: boolean;
  readonly hasLogin: boolean;
  /** The program that renders Kustomizations, and its path if it is there. */
  readonly program: string;
  readonly findProgram: (program: string) => Promise<string | undefined>;
}

export async function examineFluxPreviews(setting: FluxPreviewsSetting): Promise<readonly Finding[]> {
  const subject = "previews of Flux's Kustomizations";
  const without = "flux.previews has no effect";
  if (!setting.previewsEnabled)
    return [warning(subject, `previews are disabled: ${without}`, "set preview.enabled: docs/pull-requests.md")];
  if (!setting.hasLogin) {
    const advice = "give the git host in `forges` a token or an app: docs/pull-requests.md";
    return [warning(subject, `the server can log in to no git host: ${without}`, advice)];
  }
  if (setting.hasRunner) {
    const words = `a preview runner renders previews, and renders only kluctl's projects: ${without}`;
    return [warning(subject, words, "remove preview.runner.address, or flux.previews")];
  }
  const path = await setting.findProgram(setting.program);
  if (path === undefined) {
    const advice = "use the image, which has it, or set flux.renderer to its path";
    return [warning(subject, `there is no program ${setting.program} to render them: ${without}`, advice)];
  }
  return [ok(subject, `rendered by ${path}`)];
}
