/** Whether further verdicts come soon, so that a request to many topics may wait for them. */
export class VerdictSupply {
  private isComing = false;
  private onEnd = (): void => undefined;

  get isMoreComing(): boolean {
    return this.isComing;
  }

  /** @param isComing records wait, and a part of them is being decided */
  set(isComing: boolean): void {
    const hasEnded = this.isComing && !isComing;
    this.isComing = isComing;
    if (hasEnded) this.onEnd();
  }

  /** @param listener called each time that no more verdicts come soon */
  whenEnded(listener: () => void): void {
    this.onEnd = listener;
  }
}
