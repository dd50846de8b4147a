/** Decides which deployments a target hears of, in which channel, and of which events. Pure. */
import type { NotificationsConfig, RouteConfig, TargetConfig } from "../../config.ts";
import { matchesGlob } from "../../kit/glob.ts";
import {
  annotation,
  type AnyDeployment,
  followsGit,
  isMalformed,
  type NoticeEvent,
  noticeEvents,
} from "../../model.ts";

export interface Subscription {
  readonly deployment: AnyDeployment;
  readonly events: ReadonlySet<NoticeEvent>;
}

/** A target's own channel, if `channel` is absent. */
export interface Destination {
  readonly channel: string | undefined;
  readonly subscriptions: readonly Subscription[];
}

/** Why a deployment is reported to a target. */
export interface Subscribed {
  readonly target: string;
  readonly channel: string | undefined;
  readonly events: ReadonlySet<NoticeEvent>;
  readonly why: string;
}

/** That a deploy has begun is seldom worth a message. */
const usualEvents: readonly NoticeEvent[] = noticeEvents.filter((event) => event !== "started");

/** Each channel costs requests and has a place in the record. Those beyond it go to the target's own channel. */
const mostChannels = 100;
const [mostNamed, longestAnnotation] = [5, 1_000];

export function destinationsOf(
  target: string,
  config: NotificationsConfig,
  deployments: readonly AnyDeployment[],
): Destination[] {
  const byChannel = new Map<string | undefined, Subscription[]>();
  for (const deployment of deployments) {
    for (const one of subscriptionsOf(deployment, config).filter((each) => each.target === target)) {
      const { events } = one;
      const isTooMany = byChannel.size >= mostChannels && !byChannel.has(one.channel);
      const channel = isTooMany ? undefined : one.channel;
      const known = byChannel.get(channel);
      if (known) known.push({ deployment, events });
      else byChannel.set(channel, [{ deployment, events }]);
    }
  }
  return [...byChannel].map(([channel, subscriptions]) => ({ channel, subscriptions }));
}

/** Every target that hears of the deployment. The annotation takes the place of the routes to the targets that it names. */
export function subscriptionsOf(deployment: AnyDeployment, { targets, routes }: NotificationsConfig): Subscribed[] {
  const text = deployment.annotations[annotation.notify];
  const named = text === undefined ? [] : parseNotifyAnnotation(text);
  if (named === "none") return [];
  const found = targets.flatMap((target): Subscribed[] => {
    const { id } = target;
    const annotated = named.filter((one) => one.target === id);
    const isRouted = routes.some((route) => route.target === id);
    const isMeant = routes.some((route) => route.target === id && isSelected(deployment, route));
    // Routes are the administrator's. Who may name other channels may also be heard in others.
    if (annotated.length > 0 && isRouted && !isMeant && target.channels === undefined) return [];
    if (annotated.length > 0) return annotated.map(({ channel }) => toSubscribed(target, channel));
    if (routes.every(({ target }) => target !== id))
      return [{ target: id, channel: undefined, events: new Set(usualEvents), why: "no route names the target" }];
    return routes.flatMap((route, index) =>
      route.target === id && isSelected(deployment, route)
        ? [
            {
              target: id,
              channel: route.channel,
              events: new Set(route.events ?? usualEvents),
              why: `notifications.routes[${index}]`,
            },
          ]
        : [],
    );
  });
  return joined(found);
}

/** By name or ID; no direct messages. */
const channelsOfSlack = ["#*", "C*"];

/** Whoever can annotate a deployment must not be able to write to anybody. */
function toSubscribed(target: TargetConfig, wanted: string | undefined): Subscribed {
  const { channels = target.kind === "slack" && target.token !== undefined ? channelsOfSlack : [] } = target;
  const may = wanted === undefined || channels.some((pattern) => matchesGlob(pattern, wanted));
  const why = `the annotation ${annotation.notify}`;
  return {
    target: target.id,
    channel: may ? wanted : undefined,
    events: new Set(usualEvents),
    why: may ? why : `${why}, whose channel is not among the target's channels`,
  };
}

/** Several routes to one channel make one message, with the events of all of them. */
function joined(found: readonly Subscribed[]): Subscribed[] {
  const groups = Map.groupBy(found, ({ target, channel }) => JSON.stringify([target, channel ?? ""]));
  return [...groups.values()].flatMap(([first, ...others]) =>
    first === undefined
      ? []
      : [
          {
            ...first,
            events: new Set([first, ...others].flatMap(({ events }) => [...events])),
            why: [first, ...others].map(({ why }) => why).join(", "),
          },
        ],
  );
}

/** `slack:#shop, mail` names a target and, after a colon, a channel. `none`: no target hears of the deployment. */
function parseNotifyAnnotation(text: string): "none" | { target: string; channel: string | undefined }[] {
  if (text.trim() === "none") return "none";
  return text
    .slice(0, longestAnnotation)
    .split(/[,\n]/)
    .map((entry) => entry.trim())
    .filter((entry) => entry !== "")
    .slice(0, mostNamed)
    .map((entry) => {
      const [target = "", ...channel] = entry.split(":");
      return { target: target.trim(), channel: channel.join(":").trim() || undefined };
    });
}

function isSelected(deployment: AnyDeployment, route: RouteConfig): boolean {
  const { key, labels = {} } = deployment;
  const repository = isMalformed(deployment)
    ? ""
    : followsGit(deployment)
      ? deployment.repo
      : deployment.spec.source.url;
  return (
    isListed(key.namespace, route.namespaces) &&
    isListed(key.name, route.names) &&
    isListed(repository, route.repositories) &&
    Object.entries(route.labels).every(([name, value]) => labels[name] === value)
  );
}

function isListed(text: string, patterns: readonly string[]): boolean {
  return patterns.length === 0 || patterns.some((pattern) => matchesGlob(pattern, text));
}
