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
    const advice = "grant it get, list, watch and patch on gitrepositories.source.toolkit.fluxcd.io: docs/flux.md";
    return [warning(subject, "the server's account may not list them", advice)];
  }
  if (sources === undefined) {
    const advice = "install Flux 2.0 or newer, or remove flux.trigger; the server watches for the definition";
    return [
      warning(subject, "the cluster does not have source.toolkit.fluxcd.io/v1: flux.trigger has no effect", advice),
    ];
  }
  const followed = sources.filter(({ ref, suspended }) => followedBy(ref).kind !== "commit" && !suspended);
  const off = followed.filter(({ webhooks }) => !webhooks).map(({ key }) => keyText(key));
  const count = `${followed.length - off.length} of ${sources.length} are fetched as soon as a push to their ref is reported`;
  return [
    forges.some(({ webhooks }) => webhooks)
      ? ok(subject, count)
      : warning(
          subject,
          "no git host sends webhooks: only the sweep finds pushes",
          "add the git host to `forges`, with its webhook secret: docs/webhooks.md",
        ),
    ...(off.length === 0 ? [] : [ok(subject, `webhooks are disabled by annotation for ${off.join(", ")}`)]),
  ];
}
