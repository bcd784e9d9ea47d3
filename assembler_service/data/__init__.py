"""Texts that are part of the installation: what a summariser is asked, in Chinese and English."""
