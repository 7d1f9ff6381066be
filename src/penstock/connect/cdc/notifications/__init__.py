"""Notifications: what the connector tells about its snapshots, as records of a topic or lines of the log."""

from penstock.connect.cdc.notifications.sending import NotificationSettings, Notifier

__all__ = ["NotificationSettings", "Notifier"]
