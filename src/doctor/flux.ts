/** Checks whether pushes to the repositories of Flux's GitRepositories can be reported to the server. */
import { ApiError } from "../errors.ts";
import { type FluxSource, followedBy, keyText } from "../model.ts";
import { type Finding, ok, warning } from "./finding.ts";

/** Takes the GitRepositories, or `undefined` if the cluster does not have their definition. */
export async function examineFlux(
  reading: Promise<readonly FluxSource[] | undefined>,
  forges: readonly { readonly webhooks: boolean }[],
): Promise<readonly Finding[]> {
  const subject = "GitRepositories of Flux";
  let sources: readonly FluxSource[] | undefined;
  try {
    sources = await reading;
  } catch (error) {
    if (!(error instanceof ApiError && error.status === 403)) throw error;
    return [warning(subject, "may not be listed: see the rights", "grant get, list, watch and patch on them")];
  }
  if (sources === undefined) {
    const advice = "install Flux 2.0 or newer, or remove flux.trigger; the server watches for the definition";
    return [
      warning(subject, "the cluster does not have source.toolkit.fluxcd.io/v1: flux.trigger has no effect", advice),
    ];
  }
  const followed = sources.filter(({ ref }) => followedBy(ref).kind !== "commit");
  const off = followed.filter(({ webhooks }) => !webhooks).map(({ key }) => keyText(key));
  const count = `${followed.length} of ${sources.length} follow a ref, and are fetched as soon as a push is reported`;
  return [
    forges.some(({ webhooks }) => webhooks)
      ? ok(subject, count)
      : warning(subject, "no git host sends webhooks: only the sweep finds pushes", "configure a forge"),
    ...(off.length === 0 ? [] : [ok(subject, `webhooks are disabled by annotation for ${off.join(", ")}`)]),
  ];
}
