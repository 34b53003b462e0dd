import { Fragment, h } from "preact";
import { useEffect, useReducer, useState } from "preact/hooks";
import type { VNode } from "preact";
import { useApp } from "../app";
import { isAsset } from "../parts";
import type { AssetRef } from "../protocol";
import { DATA_IMAGE, visible } from "../sanitize";
import { formatBytes, t } from "../strings";
import { Icon } from "./Icon";

/** The blob of an asset, asked for if it is missing; undefined until it is there. */
export function useAsset(ref: AssetRef | null): Blob | undefined {
  const { assets } = useApp();
  const [, redraw] = useReducer((n: number) => n + 1, 0);
  const hash = ref?.asset ?? null;
  useEffect(() => {
    if (hash === null || assets.blob(hash)) return undefined;
    return assets.whenLoaded(hash, () => redraw(undefined as never));
  }, [hash]);
  return hash === null ? undefined : assets.blob(hash);
}

/** Content that is not sent: what it is, how large, and where it can be had. */
export const TooLarge = ({ asset }: { asset: AssetRef }): VNode => (
  <div class="cn-box">
    {t("tooLarge", asset.mediaType, formatBytes(asset.bytes), asset.object ? t("inObjects", asset.object) : t("notKept"))}
  </div>
);

/** An image: data and assets at once, a remote one only after a click on its box. */
export function Picture({ url, alt }: { url: string | AssetRef; alt: string }): VNode {
  const { assets } = useApp();
  const asset = isAsset(url) ? url : null;
  const blob = useAsset(asset);
  const [isWanted, setWanted] = useState(false);
  if (asset) {
    if (asset.asset === null) return <TooLarge asset={asset} />;
    return blob ? <img class="cn-image" src={assets.url(asset.asset)} alt={visible(alt)} /> : <span class="cn-box">{t("loadImage", "…")}</span>;
  }
  const source = String(url);
  if (DATA_IMAGE.test(source)) return <img class="cn-image" src={source} alt={visible(alt)} />;
  let host: string;
  try {
    const parsed = new URL(source);
    if (parsed.protocol !== "https:" && parsed.protocol !== "http:") return <Fragment>{visible(alt)}</Fragment>;
    host = parsed.host;
  } catch {
    return <Fragment>{visible(alt)}</Fragment>;
  }
  if (isWanted) return <img class="cn-image" src={source} alt={visible(alt)} referrerpolicy="no-referrer" />;
  return (
    <button type="button" class="cn-box" onClick={(event) => {
        // It may stand in a link.
        event.preventDefault();
        setWanted(true);
      }}
    >
      <Icon name="image" /> {t("loadImage", host)}
      {alt && `: ${visible(alt)}`}
    </button>
  );
}
